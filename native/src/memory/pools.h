/* SPDX-License-Identifier: BSD-3-Clause
 * Pools: blocks of the device heap from which another library's allocator takes segments, each PE for itself.
 * ishmemx_memory.h has the rest. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

extern _Atomic int pysh_n_pools;

bool pysh_pool_has_pending(const void *address, size_t nbytes);

/* Is a byte of [address, +nbytes) of a pool, but of no segment that the PEs have compared? Every call with an address
 * asks that, and nearly always there is no pool, which costs it one load.
 * Relaxed: a pool is made before its memory is handed out, by this thread or by one that told it of the address. */
static inline bool pysh_pool_pending(const void *address, size_t nbytes) {
    return atomic_load_explicit(&pysh_n_pools, memory_order_relaxed) && pysh_pool_has_pending(address, nbytes);
}
/* When the job ends. A pool that has segments stays, as their library gives them back later. */
void pysh_pools_close_all(void);
