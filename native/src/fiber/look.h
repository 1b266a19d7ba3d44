/* SPDX-License-Identifier: BSD-3-Clause
 * Looks at kernels from another thread. */
#pragma once

#include <signal.h>

#include "fiber/fiber.h"

/* Asks a worker's thread to look. Nobody has a use for it but who reads from sockets and asked for it; else it is
 * dropped. */
#define PYSH_LOOK_SIGNAL SIGURG

void pysh_look_forget(worker_t *worker); /* what looks have kept of it */
