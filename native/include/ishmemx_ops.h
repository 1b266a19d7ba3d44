/* SPDX-License-Identifier: BSD-3-Clause
 * Part of ishmemx.h: put and get, atomics, signals, waits, ordering, locks. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "ishmemx_contract.h"
#include "ishmemx_job.h"
#include "ishmemx_teams.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- RMA (bytes) --------------------------------------------------------------------------- */

ISHMEMX_API int ishmemx_put(ishmemx_ctx_t ctx, void *dest, const void *source, size_t nbytes, int pe);
ISHMEMX_API int ishmemx_get(ishmemx_ctx_t ctx, void *dest, const void *source, size_t nbytes, int pe);
ISHMEMX_API int ishmemx_put_nbi(ishmemx_ctx_t ctx, void *dest, const void *source, size_t nbytes, int pe);
ISHMEMX_API int ishmemx_get_nbi(ishmemx_ctx_t ctx, void *dest, const void *source, size_t nbytes, int pe);
/* Strided: blocks of `block` elements of `width` bytes; block i is at element i * stride on each side. Strides
 * count elements and are at least 1, and at least `block` where there is more than one block. */
ISHMEMX_API int ishmemx_iput(ishmemx_ctx_t ctx, void *dest, const void *source, ptrdiff_t dest_stride,
                             ptrdiff_t source_stride, size_t block, size_t n_blocks, size_t width, int pe);
ISHMEMX_API int ishmemx_iget(ishmemx_ctx_t ctx, void *dest, const void *source, ptrdiff_t dest_stride,
                             ptrdiff_t source_stride, size_t block, size_t n_blocks, size_t width, int pe);

/* ---- atomics: values travel as bits in a uint64_t ------------------------------------------- */

/* op is ISHMEMX_ATOMIC_*, type ISHMEMX_TYPE_*; `fetched` receives the old bits, or is NULL for the
 * forms that fetch nothing. `cond` matters to compare_swap only. */
ISHMEMX_API int ishmemx_atomic(ishmemx_ctx_t ctx, int op, int type, void *dest, uint64_t value, uint64_t cond, int pe,
                               uint64_t *fetched);
/* The old value arrives at `fetch`, an element of the type, by the next quiet. */
ISHMEMX_API int ishmemx_atomic_nbi(ishmemx_ctx_t ctx, int op, int type, void *fetch, void *dest, uint64_t value,
                                   uint64_t cond, int pe);

/* ---- signals -------------------------------------------------------------------------------- */

/* sig_op is ISHMEMX_SIGNAL_*, cmp ISHMEMX_CMP_*: ishmemx_contract.h. */

ISHMEMX_API int ishmemx_put_signal(ishmemx_ctx_t ctx, void *dest, const void *source, size_t nbytes, uint64_t *sig_addr,
                                   uint64_t signal, int sig_op, int pe);
ISHMEMX_API int ishmemx_put_signal_nbi(ishmemx_ctx_t ctx, void *dest, const void *source, size_t nbytes,
                                       uint64_t *sig_addr, uint64_t signal, int sig_op, int pe);
ISHMEMX_API int ishmemx_signal_op(ishmemx_ctx_t ctx, uint64_t *sig_addr, uint64_t signal, int sig_op, int pe);
ISHMEMX_API int ishmemx_signal_fetch(const uint64_t *sig_addr, uint64_t *value);

/* ---- waiting on one's own memory (either heap) ---------------------------------------------- */

/* type: an element of family "a". Compares with the signedness of the type. `seen` receives the
 * bits that satisfied the comparison. */
ISHMEMX_API int ishmemx_wait_until(int type, const void *ivar, int cmp, uint64_t value, uint64_t *seen);
ISHMEMX_API int ishmemx_signal_wait_until(const uint64_t *sig_addr, int cmp, uint64_t value, uint64_t *seen);
ISHMEMX_API int ishmemx_test(int type, const void *ivar, int cmp, uint64_t value, int *holds);
/* The same on nelems elements at `ivars`, less those whose `status` is not 0 (NULL: none). `values` is one
 * element of the type, or nelems of them when `vector`. Without an element in the set nothing waits:
 * all holds, index is SIZE_MAX, found 0. any takes turns among the elements that hold; some writes
 * the indices of all that hold, of which there is at least one after a wait. */
ISHMEMX_API int ishmemx_wait_until_all(int type, const void *ivars, size_t nelems, const int *status, int cmp,
                                       const void *values, int vector);
ISHMEMX_API int ishmemx_wait_until_any(int type, const void *ivars, size_t nelems, const int *status, int cmp,
                                       const void *values, int vector, size_t *index);
ISHMEMX_API int ishmemx_wait_until_some(int type, const void *ivars, size_t nelems, size_t *indices, const int *status,
                                        int cmp, const void *values, int vector, size_t *found);
ISHMEMX_API int ishmemx_test_all(int type, const void *ivars, size_t nelems, const int *status, int cmp,
                                 const void *values, int vector, int *holds);
ISHMEMX_API int ishmemx_test_any(int type, const void *ivars, size_t nelems, const int *status, int cmp,
                                 const void *values, int vector, size_t *index);
ISHMEMX_API int ishmemx_test_some(int type, const void *ivars, size_t nelems, size_t *indices, const int *status,
                                  int cmp, const void *values, int vector, size_t *found);

/* ---- ordering and synchronisation ------------------------------------------------------------ */

ISHMEMX_API int ishmemx_fence(ishmemx_ctx_t ctx);
ISHMEMX_API int ishmemx_quiet(ishmemx_ctx_t ctx);
/* 0 when no non-blocking operation of this PE's host may still use local memory: the sources of all can be let go. */
ISHMEMX_API int ishmemx_outstanding(void);
/* 1: there is nothing that fence and quiet of this PE's host would wait for, not even by asking. */
ISHMEMX_API int ishmemx_is_quiet(void);
/* quiet for n_pes PEs of the context; 0 returns at once. */
ISHMEMX_API int ishmemx_pe_quiet(ishmemx_ctx_t ctx, const int *pes, size_t n_pes);
ISHMEMX_API int ishmemx_barrier_all(void); /* quiet of the default context, sync, drain */
ISHMEMX_API int ishmemx_team_sync(ishmemx_team_t team);

/* ---- locks: a long of 8 bytes on the host heap, all 0 on every PE at first ---------------------- */

/* First come, first served. A wait that ends early keeps the place in the queue: set it again. */
ISHMEMX_API int ishmemx_set_lock(void *lock);
ISHMEMX_API int ishmemx_test_lock(void *lock, int *acquired);
ISHMEMX_API int ishmemx_clear_lock(void *lock); /* quiet of the default context first; by the holder only */

#ifdef __cplusplus
}
#endif
