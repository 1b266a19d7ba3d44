/* SPDX-License-Identifier: BSD-3-Clause
 * Stacks of fibers. */
#pragma once

#include "fiber/fiber.h"

fiber_t *pysh_fiber_take(worker_t *worker); /* NULL: no memory */
void pysh_fibers_return(worker_t *worker);  /* all that the worker has */
