/* SPDX-License-Identifier: BSD-3-Clause
 * Extensions of pyshmem to OpenSHMEM, and those of Sandia OpenSHMEM that became routines of 1.6, by their names there.
 */
#pragma once

#include "ishmemx.h"
#include "shmem.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Seconds since some moment in the past, the same for all PEs of a host. */
ISHMEMX_API double shmemx_wtime(void);
#define HAVE_SHMEMX_WTIME /* as programs for Sandia OpenSHMEM ask */

#define SHMEMX_SCAN_(_name, _ctype, _verb)                                                                             \
    static inline int shmemx_##_name##_##_verb(shmem_team_t team, _ctype *dest, const _ctype *source, size_t nelems) { \
        return shmem_##_name##_##_verb(team, dest, source, nelems);                                                    \
    }
#define SHMEMX_SCANS_(_name, _ctype, _type) \
    SHMEMX_SCAN_(_name, _ctype, sum_inscan) \
    SHMEMX_SCAN_(_name, _ctype, sum_exscan)
SHMEM_TYPENAMES_S(SHMEMX_SCANS_)

#define SHMEMX_BLOCKS_(_stem, _ctype)                                                                                 \
    static inline void shmemx_##_stem(_ctype *dest, const _ctype *source, ptrdiff_t dst, ptrdiff_t sst, size_t bsize, \
                                      size_t nblocks, int pe) {                                                       \
        shmem_##_stem(dest, source, dst, sst, bsize, nblocks, pe);                                                    \
    }                                                                                                                 \
    static inline void shmemx_ctx_##_stem(shmem_ctx_t ctx, _ctype *dest, const _ctype *source, ptrdiff_t dst,         \
                                          ptrdiff_t sst, size_t bsize, size_t nblocks, int pe) {                      \
        shmem_ctx_##_stem(ctx, dest, source, dst, sst, bsize, nblocks, pe);                                           \
    }
#define SHMEMX_BOTH_BLOCKS_(_name, _bits, _ctype) \
    SHMEMX_BLOCKS_(_name##ibput##_bits, _ctype)   \
    SHMEMX_BLOCKS_(_name##ibget##_bits, _ctype)
#define SHMEMX_TYPED_BLOCKS_(_name, _ctype, _type) SHMEMX_BOTH_BLOCKS_(_name##_, , _ctype)
SHMEM_TYPENAMES_R(SHMEMX_TYPED_BLOCKS_)
SHMEMX_BOTH_BLOCKS_(, 8, void)
SHMEMX_BOTH_BLOCKS_(, 16, void)
SHMEMX_BOTH_BLOCKS_(, 32, void)
SHMEMX_BOTH_BLOCKS_(, 64, void)
SHMEMX_BOTH_BLOCKS_(, 128, void)

#undef SHMEMX_SCAN_
#undef SHMEMX_SCANS_
#undef SHMEMX_BLOCKS_
#undef SHMEMX_BOTH_BLOCKS_
#undef SHMEMX_TYPED_BLOCKS_

#ifdef __cplusplus
}
#endif

/* The generic ones, where shmem.h has generic routines; and those without types. */
#define shmemx_sum_inscan shmem_sum_inscan
#define shmemx_sum_exscan shmem_sum_exscan
#define shmemx_ibput      shmem_ibput
#define shmemx_ibget      shmem_ibget

#define shmemx_signal_set        shmem_signal_set
#define shmemx_signal_add        shmem_signal_add
#define shmemx_ctx_signal_set    shmem_ctx_signal_set
#define shmemx_ctx_signal_add    shmem_ctx_signal_add
#define shmemx_query_initialized shmem_query_initialized
