/* SPDX-License-Identifier: BSD-3-Clause
 * The grid's barrier. */
#pragma once

#include "fiber/fiber.h"

void pysh_cpu_grid_sync(void);

void pysh_grid_check(block_t *block, worker_t *worker); /* a thread of it has come or ended; NULL: a whole block has */
bool pysh_grid_release(worker_t *worker);               /* whether there was a block to go on */
