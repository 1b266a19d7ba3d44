/* SPDX-License-Identifier: BSD-3-Clause
 * Part of ishmemx.h: the symmetric heaps. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "ishmemx_job.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- symmetric heaps ----------------------------------------------------------------------- */

typedef struct {
    int64_t nbytes, used, free, largest_free; /* bytes; used counts rounding */
    int64_t allocations;                      /* live blocks */
    int64_t released;                         /* released here, not yet by every PE */
    int64_t memory; /* bytes that the heap has memory for; of a heap that grows fewer than nbytes */
} ishmemx_heap_stats_t;

/* What a PE shows to other processes of its user. */
typedef struct {
    int32_t pe, n_pes, pid, unused;
    char job[64];                                  /* the name of the job, or empty */
    ishmemx_heap_stats_t heap[ISHMEMX_HEAP_COUNT]; /* nbytes 0: there is no such heap */
    char sites[16384];                             /* what ishmemx_heaps_show() was given */
} ishmemx_heaps_seen_t;

/* Collective; equal arguments on all PEs, else ISHMEMX_ERR_MISMATCH on all. nbytes 0 gives NULL and
 * does not synchronise. align 0 means 64. Zeroed when `zero` is set. Ends with a barrier. */
ISHMEMX_API int ishmemx_malloc(int heap, size_t nbytes, size_t align, int zero, void **block_p);
/* The same; errors and reports of those who wait call it `routine`, of at most 23 characters. `contents`, such as
 * "shape (4,) float64", or NULL: what is to lie there, which is equal on all PEs too; behind a newline what
 * the program calls it, which PEs may do otherwise. */
ISHMEMX_API int ishmemx_malloc_as(const char *routine, const char *contents, int heap, size_t nbytes, size_t align,
                                  int zero, void **block_p);
/* The same, filled with `values`, which each PE has for itself, again and again, before any PE goes on. */
ISHMEMX_API int ishmemx_malloc_filled(const char *routine, const char *contents, int heap, size_t nbytes, size_t align,
                                      const void *values, size_t values_nbytes, void **block_p);
/* What each PE calls the block that was allocated last, a hash each in names[n_pes], 0 where nothing is known; 1 where
 * they differ. Local; of interest to the thread that allocated, before the next collective on the heaps. */
ISHMEMX_API int ishmemx_malloc_names(uint64_t *names);
ISHMEMX_API int ishmemx_free(void *block); /* collective; begins with a barrier; NULL is allowed */
/* Collective: a block of nbytes with the old contents, as far as they fit, in place of `block`, on the
 * same heap. NULL is malloc, nbytes 0 is free. When it fails the old block stays as it was. */
ISHMEMX_API int ishmemx_realloc(void *block, size_t nbytes, void **block_p);
ISHMEMX_API int ishmemx_realloc_as(const char *contents, void *block, size_t nbytes, void **block_p);
/* Local: the caller will not use the block again. It is freed by the next ishmemx_malloc,
 * ishmemx_barrier_all or ishmemx_drain after every PE has released it. Safe from a finalizer. */
ISHMEMX_API int ishmemx_release(void *block);
ISHMEMX_API int ishmemx_drain(void); /* collective */
ISHMEMX_API int ishmemx_heap_stats(int heap, ishmemx_heap_stats_t *stats);
/* Why the device heap of the job does not grow, "" where it does, or there is none. */
ISHMEMX_API const char *ishmemx_device_heap_fixed(void);
/* Shows a text to who looks at this PE's heaps from outside: who holds what of them. What is too long is cut off. */
ISHMEMX_API int ishmemx_heaps_show(const char *sites);
/* How full the heaps of a PE are, which may be another process's: `fd` is open on its "pyshmem-board", as /proc
 * shows that among its descriptors. As of its last collective call that made or freed memory. No job need run here. */
ISHMEMX_API int ishmemx_heaps_seen(int fd, ishmemx_heaps_seen_t *seen);
/* Collective; begins with a barrier. A heap that grows gives back memory behind its last block; others have none to
 * give, and so does one whose last block is at its end. */
ISHMEMX_API int ishmemx_heap_trim(int heap);
/* A pool: [base, +nbytes), a block of the device heap, from which another library's allocator takes segments. All is
 * local. Routines refuse memory of a pool but for segments that ishmemx_pool_agreed() covers: those that were taken up
 * to `taken`, which ishmemx_pool_segments() told with them. The caller has compared the segments of all PEs by then.
 * `gpu`: the number that the library gives the GPU; -1: any. */
ISHMEMX_API int ishmemx_pool_open(void *base, size_t nbytes, int gpu, int *pool_p);
ISHMEMX_API int ishmemx_pool_close(int pool); /* ARGUMENT: it has segments */
/* From here on the calling thread takes from that pool; 0: from none. Returns the one before. */
ISHMEMX_API int ishmemx_pool_use(int pool);
/* Those of a library, of the form of torch.cuda.memory.CUDAPluggableAllocator. NULL: no room. What is of no pool any
 * more is given in vain. */
ISHMEMX_API void *ishmemx_pool_take(size_t nbytes, int gpu, void *stream);
ISHMEMX_API void ishmemx_pool_give(void *address, size_t nbytes, int gpu, void *stream);
/* How many there are, also of a pool whose job has ended, or -1: there is no such pool. The first `most` are written.
 */
ISHMEMX_API int ishmemx_pool_segments(int pool, int64_t *offsets, int64_t *sizes, int64_t most, uint64_t *taken_p);
ISHMEMX_API int ishmemx_pool_agreed(int pool, uint64_t taken);
/* 1: it is memory of a pool that is refused. */
ISHMEMX_API int ishmemx_pool_pending(const void *address, size_t nbytes);
/* Base and size of a heap of the calling PE; base NULL when there is none. */
ISHMEMX_API int ishmemx_heap_range(int heap, void **base, int64_t *nbytes);
/* Collective over a team: each member's [address, +nbytes), which is on no heap, becomes the remote side of put and get
 * of the host, and of ptr where it is mapped. Others reach the same offset. UNSUPPORTED with the reason for memory that
 * cannot be reached; MISMATCH where members give other sizes, or memory of host and GPU. It stays where it is until it
 * is unregistered, or the job ends. */
ISHMEMX_API int ishmemx_register(ishmemx_team_t team, void *address, size_t nbytes);
/* Collective over the same PEs, of the same memory; begins with quiet and a meeting, and ends with one. */
ISHMEMX_API int ishmemx_unregister(ishmemx_team_t team, void *address, size_t nbytes);
/* 1: all of it is of one registered array of this PE. */
ISHMEMX_API int ishmemx_is_registered(const void *address, size_t nbytes);
/* The address at which the caller can load and store `pe`'s copy of `address`, or NULL. For a device
 * heap on a GPU this is a device address. */
ISHMEMX_API int ishmemx_ptr(const void *address, int pe, void **peer_p);
/* 1: a few bytes between `address` of the context's PE `pe` and `local` are the CPU's loads and stores, which wait for
 * nobody. A thread that holds a lock, such as Python's, may keep it for such an access. 0 where anything is out of the
 * ordinary. A context of NULL: no other PE is in it; `local` of NULL: it is the CPU's memory anyway. */
ISHMEMX_API int ishmemx_at_once(ishmemx_ctx_t ctx, const void *address, int pe, const void *local);

#ifdef __cplusplus
}
#endif
