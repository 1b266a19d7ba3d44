/* SPDX-License-Identifier: BSD-3-Clause
 * Pools: blocks of the device heap from which another library's allocator takes segments, each PE for itself.
 * ishmemx_memory.h has the rest. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* How many there are: nearly always none, which costs a look this load. */
extern _Atomic int pysh_n_pools;

/* Is a byte of [address, +nbytes) of a pool, but of no segment that the PEs have compared? */
bool pysh_pool_pending(const void *address, size_t nbytes);
/* When the job ends. A pool that has segments stays, as their library gives them back later. */
void pysh_pools_close_all(void);
