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

#define SHMEMX_NBI_(_name, _ctype, _stem, _parameters, _arguments)                                      \
    static inline void shmemx_##_name##_atomic_##_stem##_nbi(_ctype *fetch, SHMEMX_LIST_ _parameters) { \
        shmem_##_name##_atomic_##_stem##_nbi(fetch, SHMEMX_LIST_ _arguments);                           \
    }                                                                                                   \
    static inline void shmemx_ctx_##_name##_atomic_##_stem##_nbi(shmem_ctx_t ctx, _ctype *fetch,        \
                                                                 SHMEMX_LIST_ _parameters) {            \
        shmem_ctx_##_name##_atomic_##_stem##_nbi(ctx, fetch, SHMEMX_LIST_ _arguments);                  \
    }
#define SHMEMX_LIST_(...) __VA_ARGS__
#define SHMEMX_NBI_VALUE_(_name, _ctype, _stem) \
    SHMEMX_NBI_(_name, _ctype, _stem, (_ctype * dest, _ctype value, int pe), (dest, value, pe))
#define SHMEMX_NBI_X_(_name, _ctype, _type)                                         \
    SHMEMX_NBI_(_name, _ctype, fetch, (const _ctype *source, int pe), (source, pe)) \
    SHMEMX_NBI_VALUE_(_name, _ctype, swap)
#define SHMEMX_NBI_A_(_name, _ctype, _type)                                                      \
    SHMEMX_NBI_(_name, _ctype, compare_swap, (_ctype * dest, _ctype cond, _ctype value, int pe), \
                (dest, cond, value, pe))                                                         \
    SHMEMX_NBI_(_name, _ctype, fetch_inc, (_ctype * dest, int pe), (dest, pe))                   \
    SHMEMX_NBI_VALUE_(_name, _ctype, fetch_add)
#define SHMEMX_NBI_B_(_name, _ctype, _type)     \
    SHMEMX_NBI_VALUE_(_name, _ctype, fetch_and) \
    SHMEMX_NBI_VALUE_(_name, _ctype, fetch_or)  \
    SHMEMX_NBI_VALUE_(_name, _ctype, fetch_xor)
SHMEM_TYPENAMES_X(SHMEMX_NBI_X_)
SHMEM_TYPENAMES_A(SHMEMX_NBI_A_)
SHMEM_TYPENAMES_B(SHMEMX_NBI_B_)

#undef SHMEMX_NBI_
#undef SHMEMX_LIST_
#undef SHMEMX_NBI_VALUE_
#undef SHMEMX_NBI_X_
#undef SHMEMX_NBI_A_
#undef SHMEMX_NBI_B_
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

#define shmemx_atomic_fetch_nbi        shmem_atomic_fetch_nbi
#define shmemx_atomic_swap_nbi         shmem_atomic_swap_nbi
#define shmemx_atomic_compare_swap_nbi shmem_atomic_compare_swap_nbi
#define shmemx_atomic_fetch_inc_nbi    shmem_atomic_fetch_inc_nbi
#define shmemx_atomic_fetch_add_nbi    shmem_atomic_fetch_add_nbi
#define shmemx_atomic_fetch_and_nbi    shmem_atomic_fetch_and_nbi
#define shmemx_atomic_fetch_or_nbi     shmem_atomic_fetch_or_nbi
#define shmemx_atomic_fetch_xor_nbi    shmem_atomic_fetch_xor_nbi

/* With a context first, as in Sandia OpenSHMEM, or without: four arguments, or three. */
#define SHMEMX_FIFTH_(_1, _2, _3, _4, _routine, ...) _routine
#define shmemx_signal_set(...)                                                                             \
    SHMEMX_FIFTH_(__VA_ARGS__, shmem_ctx_signal_set, shmem_signal_set, shmem_signal_set, shmem_signal_set, \
                  0)(__VA_ARGS__)
#define shmemx_signal_add(...)                                                                             \
    SHMEMX_FIFTH_(__VA_ARGS__, shmem_ctx_signal_add, shmem_signal_add, shmem_signal_add, shmem_signal_add, \
                  0)(__VA_ARGS__)
#define shmemx_ctx_signal_set    shmem_ctx_signal_set
#define shmemx_ctx_signal_add    shmem_ctx_signal_add
#define shmemx_query_initialized shmem_query_initialized

#define SHMEMX_TEAM_NODE (&ishmemx_team_node) /* the PEs of this host */
