/* SPDX-License-Identifier: BSD-3-Clause
 * Part of ishmemx.h: collectives, blocking and non-blocking. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "ishmemx_job.h"
#include "ishmemx_teams.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- collectives (bytes; reductions take an element type) ------------------------------------ */

ISHMEMX_API int ishmemx_broadcast(ishmemx_team_t team, void *dest, const void *source, size_t nbytes, int root);
ISHMEMX_API int ishmemx_fcollect(ishmemx_team_t team, void *dest, const void *source, size_t nbytes);
/* Combines in PE order 0..n-1, so every PE gets the same bits. dest may equal source. */
ISHMEMX_API int ishmemx_reduce(ishmemx_team_t team, int op, int type, void *dest, const void *source, size_t nreduce);
/* The same of n_pes blocks of nreduce elements, of which PE l gets block l, nreduce elements. dest may be the caller's
 * own block of source. */
ISHMEMX_API int ishmemx_reduce_scatter(ishmemx_team_t team, int op, int type, void *dest, const void *source,
                                       size_t nreduce);
/* One behind the other, in PE order; nbytes may differ and may be 0. When dest of one PE, of `capacity` bytes
 * (SIZE_MAX: not known), does not hold all, the call fails on all. */
ISHMEMX_API int ishmemx_collect(ishmemx_team_t team, void *dest, size_t capacity, const void *source, size_t nbytes);
/* nbytes from each PE to each PE. */
ISHMEMX_API int ishmemx_alltoall(ishmemx_team_t team, void *dest, const void *source, size_t nbytes);
/* Elements of `width` bytes, strides >= 1 in elements; the block of PE l begins at l * nelems * stride. */
ISHMEMX_API int ishmemx_alltoalls(ishmemx_team_t team, void *dest, const void *source, ptrdiff_t dest_stride,
                                  ptrdiff_t source_stride, size_t nelems, size_t width);
/* Sums over PEs 0..me (inclusive) or 0..me-1 (exclusive: 0 on PE 0). dest may equal source. */
ISHMEMX_API int ishmemx_sum_scan(ishmemx_team_t team, int exclusive, int type, void *dest, const void *source,
                                 size_t nelems);

/* ---- non-blocking collectives ------------------------------------------------------------------ */

/* The routines above, begun: the members begin the same ones on a team in the same order, blocking ones in between
 * alike. dest and source stay untouched until the request is complete. 8 requests of a team may be outstanding; a
 * further call waits for the oldest. Requests move on while the PE is in test, in wait, in a call that begins another
 * one, or in any other wait of the library. team_destroy and finalize complete what is left. Where PYSHMEM_CHECK is
 * set, arguments that differ fail at test and wait, on all members. */
typedef struct ishmemx_request *ishmemx_request_t;
ISHMEMX_API int ishmemx_sync_nb(ishmemx_team_t team, ishmemx_request_t *request);
ISHMEMX_API int ishmemx_barrier_nb(ishmemx_team_t team, ishmemx_request_t *request); /* quiet, then sync_nb */
ISHMEMX_API int ishmemx_broadcast_nb(ishmemx_team_t team, void *dest, const void *source, size_t nbytes, int root,
                                     ishmemx_request_t *request);
ISHMEMX_API int ishmemx_fcollect_nb(ishmemx_team_t team, void *dest, const void *source, size_t nbytes,
                                    ishmemx_request_t *request);
ISHMEMX_API int ishmemx_collect_nb(ishmemx_team_t team, void *dest, size_t capacity, const void *source, size_t nbytes,
                                   ishmemx_request_t *request);
ISHMEMX_API int ishmemx_alltoall_nb(ishmemx_team_t team, void *dest, const void *source, size_t nbytes,
                                    ishmemx_request_t *request);
ISHMEMX_API int ishmemx_alltoalls_nb(ishmemx_team_t team, void *dest, const void *source, ptrdiff_t dest_stride,
                                     ptrdiff_t source_stride, size_t nelems, size_t width, ishmemx_request_t *request);
ISHMEMX_API int ishmemx_reduce_nb(ishmemx_team_t team, int op, int type, void *dest, const void *source, size_t nreduce,
                                  ishmemx_request_t *request);
ISHMEMX_API int ishmemx_reduce_scatter_nb(ishmemx_team_t team, int op, int type, void *dest, const void *source,
                                          size_t nreduce, ishmemx_request_t *request);
ISHMEMX_API int ishmemx_sum_scan_nb(ishmemx_team_t team, int exclusive, int type, void *dest, const void *source,
                                    size_t nelems, ishmemx_request_t *request);
/* Is it complete? Fails as the collective did, with *done 1. Also of a complete one, as often as one likes, even after
 * finalize. */
ISHMEMX_API int ishmemx_request_test(ishmemx_request_t request, int *done);
/* 1 when it is complete; a look that moves nothing on, for destructors. */
ISHMEMX_API int ishmemx_request_complete(ishmemx_request_t request);
/* A wait that ends early (TIMEOUT, INTERRUPTED) leaves the request outstanding. */
ISHMEMX_API int ishmemx_request_wait(ishmemx_request_t request);
/* The caller will not name it again. One that is outstanding still completes, by progress of other calls. */
ISHMEMX_API int ishmemx_request_free(ishmemx_request_t request);

#ifdef __cplusplus
}
#endif
