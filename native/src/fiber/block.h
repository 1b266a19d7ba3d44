/* SPDX-License-Identifier: BSD-3-Clause
 * Blocks: what kernels call, and what the scheduler calls. */
#pragma once

#include "fiber/fiber.h"

/* Barrier of the block's live threads. The other returns how many gave a predicate that is not 0, and in the upper half
 * how many met. */
void pysh_cpu_sync(void);
int64_t pysh_cpu_sync_count(int32_t predicate);
/* The barrier of a routine of the device library, which all threads of the block call, none of which has ended. */
void pysh_cpu_meet(void);
/* The block's shared memory of a place in the program. */
int64_t pysh_cpu_shared(int64_t place, int64_t nbytes);

bool pysh_block_begin(worker_t *worker, int64_t rank);
void pysh_block_end(worker_t *worker, block_t *block);
void pysh_block_free(block_t *block);
void pysh_block_check(block_t *block, worker_t *worker); /* a thread of it has ended */
