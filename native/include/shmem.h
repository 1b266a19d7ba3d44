/* SPDX-License-Identifier: BSD-3-Clause
 * OpenSHMEM for C: a typed shell over ishmemx.h. The lists SHMEM_TYPENAMES_* of shmem_types.h (a
 * letter a table of types in the specification) say which rows each family has.
 *
 * A routine without a result that fails prints what was wrong and ends the job; one with an int result
 * returns non-zero and leaves the text to ishmemx_error(). */
#pragma once

#include "ishmemx.h"

#ifdef __cplusplus
#ifdef __clang__ /* with -pedantic it warns of C's complex types, which C++ has as an extension */
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wc99-extensions"
#endif
extern "C" {
#endif

/* ---- library constants -------------------------------------------------------------------- */

#define SHMEM_MAJOR_VERSION 1
#define SHMEM_MINOR_VERSION 6
#define SHMEM_MAX_NAME_LEN  256
#define SHMEM_VENDOR_STRING "pyshmem"
#define OSHMEM_SPEC_VERSION 10600 /* programs written for Open MPI look at it */

#define SHMEM_THREAD_SINGLE     ISHMEMX_THREAD_SINGLE
#define SHMEM_THREAD_FUNNELED   ISHMEMX_THREAD_FUNNELED
#define SHMEM_THREAD_SERIALIZED ISHMEMX_THREAD_SERIALIZED
#define SHMEM_THREAD_MULTIPLE   ISHMEMX_THREAD_MULTIPLE

typedef int shmem_cmp_t; /* programs written for Sandia OpenSHMEM name it */
#define SHMEM_CMP_EQ ISHMEMX_CMP_EQ
#define SHMEM_CMP_NE ISHMEMX_CMP_NE
#define SHMEM_CMP_GT ISHMEMX_CMP_GT
#define SHMEM_CMP_GE ISHMEMX_CMP_GE
#define SHMEM_CMP_LT ISHMEMX_CMP_LT
#define SHMEM_CMP_LE ISHMEMX_CMP_LE

#define SHMEM_SIGNAL_SET ISHMEMX_SIGNAL_SET
#define SHMEM_SIGNAL_ADD ISHMEMX_SIGNAL_ADD

#define SHMEM_MALLOC_ATOMICS_REMOTE 1L
#define SHMEM_MALLOC_SIGNAL_REMOTE  2L

#define SHMEM_TEAM_NUM_CONTEXTS ((long)ISHMEMX_TEAM_NUM_CONTEXTS)

#define SHMEM_CTX_PRIVATE           ((long)ISHMEMX_CTX_PRIVATE)
#define SHMEM_CTX_SERIALIZED        ((long)ISHMEMX_CTX_SERIALIZED)
#define SHMEM_CTX_NOSTORE           ((long)ISHMEMX_CTX_NOSTORE)
#define SHMEM_CTX_SESSION_BATCH     ((long)ISHMEMX_SESSION_BATCH)
#define SHMEM_CTX_SESSION_SAME_AMO  ((long)ISHMEMX_SESSION_SAME_AMO)
#define SHMEM_CTX_SESSION_TOTAL_OPS ((long)ISHMEMX_SESSION_TOTAL_OPS)

/* ---- library handles ---------------------------------------------------------------------- */

typedef ishmemx_team_t shmem_team_t;
typedef ishmemx_ctx_t shmem_ctx_t;
typedef ishmemx_team_config_t shmem_team_config_t;
typedef ishmemx_session_config_t shmem_ctx_session_config_t;

#define SHMEM_TEAM_WORLD   (&ishmemx_team_world)
#define SHMEM_TEAM_SHARED  (&ishmemx_team_shared)
#define SHMEM_TEAM_INVALID ((shmem_team_t)0)
#define SHMEM_CTX_DEFAULT  (&ishmemx_ctx_default)
#define SHMEM_CTX_INVALID  ((shmem_ctx_t)0)

/* A routine, and its name for profilers, which put their own in place of the first and call the second. */
#define SHMEM_ROUTINE_(_result, _stem, ...)         \
    ISHMEMX_API _result shmem_##_stem(__VA_ARGS__); \
    ISHMEMX_API _result pshmem_##_stem(__VA_ARGS__)
/* A routine without and with a context. */
#define SHMEM_BOTH_(_result, _stem, ...)         \
    SHMEM_ROUTINE_(_result, _stem, __VA_ARGS__); \
    SHMEM_ROUTINE_(_result, ctx_##_stem, shmem_ctx_t ctx, __VA_ARGS__);

/* ---- setup, exit, query -------------------------------------------------------------------- */

SHMEM_ROUTINE_(void, init, void);
SHMEM_ROUTINE_(int, init_thread, int requested, int *provided);
SHMEM_ROUTINE_(void, query_thread, int *provided);
SHMEM_ROUTINE_(void, query_initialized, int *initialized);
SHMEM_ROUTINE_(void, finalize, void);
SHMEM_ROUTINE_(__attribute__((noreturn)) void, global_exit, int status);
SHMEM_ROUTINE_(int, my_pe, void);
SHMEM_ROUTINE_(int, n_pes, void);
SHMEM_ROUTINE_(int, pe_accessible, int pe);
SHMEM_ROUTINE_(int, addr_accessible, const void *addr, int pe);
SHMEM_ROUTINE_(void, info_get_version, int *major, int *minor);
SHMEM_ROUTINE_(void, info_get_name, char *name);
SHMEM_ROUTINE_(void, pcontrol, int level, ...);

/* ---- memory -------------------------------------------------------------------------------- */

SHMEM_ROUTINE_(void *, malloc, size_t nbytes);
SHMEM_ROUTINE_(void *, malloc_with_hints, size_t nbytes, long hints);
SHMEM_ROUTINE_(void *, calloc, size_t nelems, size_t nbytes);
SHMEM_ROUTINE_(void *, align, size_t alignment, size_t nbytes);
SHMEM_ROUTINE_(void *, realloc, void *block, size_t nbytes);
SHMEM_ROUTINE_(void, free, void *block);
SHMEM_ROUTINE_(void *, ptr, const void *dest, int pe);

/* ---- teams and contexts ---------------------------------------------------------------------- */

SHMEM_ROUTINE_(int, team_my_pe, shmem_team_t team);
SHMEM_ROUTINE_(int, team_n_pes, shmem_team_t team);
SHMEM_ROUTINE_(int, team_get_config, shmem_team_t team, long config_mask, shmem_team_config_t *config);
SHMEM_ROUTINE_(int, team_translate_pe, shmem_team_t src_team, int src_pe, shmem_team_t dest_team);
SHMEM_ROUTINE_(int, team_split_strided, shmem_team_t parent, int start, int stride, int size,
               const shmem_team_config_t *config, long config_mask, shmem_team_t *new_team);
SHMEM_ROUTINE_(int, team_split_2d, shmem_team_t parent, int xrange, const shmem_team_config_t *xaxis_config,
               long xaxis_mask, shmem_team_t *xaxis_team, const shmem_team_config_t *yaxis_config, long yaxis_mask,
               shmem_team_t *yaxis_team);
SHMEM_ROUTINE_(void, team_destroy, shmem_team_t team);
SHMEM_ROUTINE_(void *, team_ptr, shmem_team_t team, const void *dest, int pe);

SHMEM_ROUTINE_(int, ctx_create, long options, shmem_ctx_t *ctx);
SHMEM_ROUTINE_(int, team_create_ctx, shmem_team_t team, long options, shmem_ctx_t *ctx);
SHMEM_ROUTINE_(void, ctx_destroy, shmem_ctx_t ctx);
SHMEM_ROUTINE_(int, ctx_get_team, shmem_ctx_t ctx, shmem_team_t *team);
SHMEM_ROUTINE_(void, ctx_session_start, shmem_ctx_t ctx, long options, const shmem_ctx_session_config_t *config,
               long config_mask);
SHMEM_ROUTINE_(void, ctx_session_stop, shmem_ctx_t ctx);

/* ---- RMA and signals ------------------------------------------------------------------------- */

/* nelems of the mem forms counts bytes, of the sized forms elements of that many bits. */
#define SHMEM_COPY_(_stem, _ctype) SHMEM_BOTH_(void, _stem, _ctype *dest, const _ctype *source, size_t nelems, int pe)
#define SHMEM_PUT_SIGNAL_(_stem, _ctype)                                                                             \
    SHMEM_BOTH_(void, _stem, _ctype *dest, const _ctype *source, size_t nelems, uint64_t *sig_addr, uint64_t signal, \
                int sig_op, int pe)
#define SHMEM_RMA_(_put, _get, _ctype)       \
    SHMEM_COPY_(_put, _ctype)                \
    SHMEM_COPY_(_put##_nbi, _ctype)          \
    SHMEM_COPY_(_get, _ctype)                \
    SHMEM_COPY_(_get##_nbi, _ctype)          \
    SHMEM_PUT_SIGNAL_(_put##_signal, _ctype) \
    SHMEM_PUT_SIGNAL_(_put##_signal_nbi, _ctype)
#define SHMEM_STRIDED_RMA_(_name, _bits, _ctype)                                                             \
    SHMEM_BOTH_(void, _name##iput##_bits, _ctype *dest, const _ctype *source, ptrdiff_t dst, ptrdiff_t sst,  \
                size_t nelems, int pe)                                                                       \
    SHMEM_BOTH_(void, _name##iget##_bits, _ctype *dest, const _ctype *source, ptrdiff_t dst, ptrdiff_t sst,  \
                size_t nelems, int pe)                                                                       \
    SHMEM_BOTH_(void, _name##ibput##_bits, _ctype *dest, const _ctype *source, ptrdiff_t dst, ptrdiff_t sst, \
                size_t bsize, size_t nblocks, int pe)                                                        \
    SHMEM_BOTH_(void, _name##ibget##_bits, _ctype *dest, const _ctype *source, ptrdiff_t dst, ptrdiff_t sst, \
                size_t bsize, size_t nblocks, int pe)
#define SHMEM_TYPED_RMA_(_name, _ctype, _type)                       \
    SHMEM_RMA_(_name##_put, _name##_get, _ctype)                     \
    SHMEM_STRIDED_RMA_(_name##_, , _ctype)                           \
    SHMEM_BOTH_(void, _name##_p, _ctype *dest, _ctype value, int pe) \
    SHMEM_BOTH_(_ctype, _name##_g, const _ctype *source, int pe)
#define SHMEM_SIZED_RMA_(_bits)              \
    SHMEM_RMA_(put##_bits, get##_bits, void) \
    SHMEM_STRIDED_RMA_(, _bits, void)

SHMEM_TYPENAMES_R(SHMEM_TYPED_RMA_)
SHMEM_SIZED_RMA_(8)
SHMEM_SIZED_RMA_(16)
SHMEM_SIZED_RMA_(32)
SHMEM_SIZED_RMA_(64)
SHMEM_SIZED_RMA_(128)
SHMEM_RMA_(putmem, getmem, void)

SHMEM_BOTH_(void, signal_set, uint64_t *sig_addr, uint64_t signal, int pe)
SHMEM_BOTH_(void, signal_add, uint64_t *sig_addr, uint64_t signal, int pe)
SHMEM_ROUTINE_(uint64_t, signal_fetch, const uint64_t *sig_addr);

/* ---- atomics ------------------------------------------------------------------------------- */

/* The old value arrives at `fetch` by the next quiet. */
#define SHMEM_FETCHING_(_ctype, _stem, ...) \
    SHMEM_BOTH_(_ctype, _stem, __VA_ARGS__) \
    SHMEM_BOTH_(void, _stem##_nbi, _ctype *fetch, __VA_ARGS__)
#define SHMEM_EXTENDED_(_name, _ctype, _type)                                   \
    SHMEM_FETCHING_(_ctype, _name##_atomic_fetch, const _ctype *source, int pe) \
    SHMEM_BOTH_(void, _name##_atomic_set, _ctype *dest, _ctype value, int pe)   \
    SHMEM_FETCHING_(_ctype, _name##_atomic_swap, _ctype *dest, _ctype value, int pe)
#define SHMEM_STANDARD_(_name, _ctype, _type)                                                             \
    SHMEM_FETCHING_(_ctype, _name##_atomic_compare_swap, _ctype *dest, _ctype cond, _ctype value, int pe) \
    SHMEM_FETCHING_(_ctype, _name##_atomic_fetch_inc, _ctype *dest, int pe)                               \
    SHMEM_BOTH_(void, _name##_atomic_inc, _ctype *dest, int pe)                                           \
    SHMEM_MODIFY_(_name, add, _ctype)
#define SHMEM_BITWISE_(_name, _ctype, _type) \
    SHMEM_MODIFY_(_name, and, _ctype) SHMEM_MODIFY_(_name, or, _ctype) SHMEM_MODIFY_(_name, xor, _ctype)
#define SHMEM_MODIFY_(_name, _verb, _ctype)                                                   \
    SHMEM_FETCHING_(_ctype, _name##_atomic_fetch_##_verb, _ctype *dest, _ctype value, int pe) \
    SHMEM_BOTH_(void, _name##_atomic_##_verb, _ctype *dest, _ctype value, int pe)

SHMEM_TYPENAMES_X(SHMEM_EXTENDED_)
SHMEM_TYPENAMES_A(SHMEM_STANDARD_)
SHMEM_TYPENAMES_B(SHMEM_BITWISE_)

/* ---- point-to-point synchronisation ---------------------------------------------------------- */

/* Elements whose status is not 0 are left out; status NULL leaves out none. */
#define SHMEM_MANY_(_name, _ctype, _tail, _value)                                                                      \
    SHMEM_ROUTINE_(void, _name##_wait_until_all##_tail, _ctype *ivars, size_t nelems, const int *status, int cmp,      \
                   _value);                                                                                            \
    SHMEM_ROUTINE_(size_t, _name##_wait_until_any##_tail, _ctype *ivars, size_t nelems, const int *status, int cmp,    \
                   _value);                                                                                            \
    SHMEM_ROUTINE_(size_t, _name##_wait_until_some##_tail, _ctype *ivars, size_t nelems, size_t *indices,              \
                   const int *status, int cmp, _value);                                                                \
    SHMEM_ROUTINE_(int, _name##_test_all##_tail, _ctype *ivars, size_t nelems, const int *status, int cmp, _value);    \
    SHMEM_ROUTINE_(size_t, _name##_test_any##_tail, _ctype *ivars, size_t nelems, const int *status, int cmp, _value); \
    SHMEM_ROUTINE_(size_t, _name##_test_some##_tail, _ctype *ivars, size_t nelems, size_t *indices, const int *status, \
                   int cmp, _value);
#define SHMEM_WAIT_(_name, _ctype, _type)                                              \
    SHMEM_ROUTINE_(void, _name##_wait_until, _ctype *ivar, int cmp, _ctype cmp_value); \
    SHMEM_ROUTINE_(int, _name##_test, _ctype *ivar, int cmp, _ctype cmp_value);        \
    SHMEM_MANY_(_name, _ctype, , _ctype cmp_value)                                     \
    SHMEM_MANY_(_name, _ctype, _vector, const _ctype *cmp_values)
SHMEM_TYPENAMES_A(SHMEM_WAIT_)
SHMEM_ROUTINE_(uint64_t, signal_wait_until, uint64_t *sig_addr, int cmp, uint64_t cmp_value);

/* ---- ordering, barrier, locks ------------------------------------------------------------------ */

SHMEM_ROUTINE_(void, fence, void);
SHMEM_ROUTINE_(void, ctx_fence, shmem_ctx_t ctx);
SHMEM_ROUTINE_(void, quiet, void);
SHMEM_ROUTINE_(void, ctx_quiet, shmem_ctx_t ctx);
SHMEM_BOTH_(void, pe_quiet, const int *target_pes, size_t npes)
SHMEM_ROUTINE_(void, barrier_all, void);
SHMEM_ROUTINE_(void, sync_all, void);
SHMEM_ROUTINE_(int, team_sync, shmem_team_t team);
SHMEM_ROUTINE_(void, set_lock, long *lock);
SHMEM_ROUTINE_(int, test_lock, long *lock); /* 0: the caller has it now */
SHMEM_ROUTINE_(void, clear_lock, long *lock);

/* ---- collectives -------------------------------------------------------------------------------- */

#define SHMEM_DATA_(_name, _mem, _ctype)                                                                              \
    SHMEM_ROUTINE_(int, _name##broadcast##_mem, shmem_team_t team, _ctype *dest, const _ctype *source, size_t nelems, \
                   int PE_root);                                                                                      \
    SHMEM_ROUTINE_(int, _name##collect##_mem, shmem_team_t team, _ctype *dest, const _ctype *source, size_t nelems);  \
    SHMEM_ROUTINE_(int, _name##fcollect##_mem, shmem_team_t team, _ctype *dest, const _ctype *source, size_t nelems); \
    SHMEM_ROUTINE_(int, _name##alltoall##_mem, shmem_team_t team, _ctype *dest, const _ctype *source, size_t nelems); \
    SHMEM_ROUTINE_(int, _name##alltoalls##_mem, shmem_team_t team, _ctype *dest, const _ctype *source, ptrdiff_t dst, \
                   ptrdiff_t sst, size_t nelems);
#define SHMEM_COLLECTIVE_(_name, _ctype, _type) SHMEM_DATA_(_name##_, , _ctype)
SHMEM_TYPENAMES_R(SHMEM_COLLECTIVE_)
SHMEM_DATA_(, mem, void)

#define SHMEM_REDUCE_(_stem, _ctype) \
    SHMEM_ROUTINE_(int, _stem, shmem_team_t team, _ctype *dest, const _ctype *source, size_t nreduce);
#define SHMEM_REDUCE_BITS_(_name, _ctype, _type) \
    SHMEM_REDUCE_(_name##_and_reduce, _ctype)    \
    SHMEM_REDUCE_(_name##_or_reduce, _ctype) SHMEM_REDUCE_(_name##_xor_reduce, _ctype)
#define SHMEM_REDUCE_ORDER_(_name, _ctype, _type) \
    SHMEM_REDUCE_(_name##_max_reduce, _ctype) SHMEM_REDUCE_(_name##_min_reduce, _ctype)
#define SHMEM_REDUCE_SUMS_(_name, _ctype, _type) \
    SHMEM_REDUCE_(_name##_sum_reduce, _ctype)    \
    SHMEM_REDUCE_(_name##_prod_reduce, _ctype)   \
    SHMEM_REDUCE_(_name##_sum_inscan, _ctype) SHMEM_REDUCE_(_name##_sum_exscan, _ctype)
SHMEM_TYPENAMES_T(SHMEM_REDUCE_BITS_)
SHMEM_REDUCE_BITS_(longlong, long long, ) /* Sandia OpenSHMEM has these too */
SHMEM_TYPENAMES_M(SHMEM_REDUCE_ORDER_)
SHMEM_TYPENAMES_S(SHMEM_REDUCE_SUMS_)

#include "shmem_deprecated.h"

#undef SHMEM_ROUTINE_
#undef SHMEM_BOTH_
#undef SHMEM_COPY_
#undef SHMEM_PUT_SIGNAL_
#undef SHMEM_RMA_
#undef SHMEM_STRIDED_RMA_
#undef SHMEM_TYPED_RMA_
#undef SHMEM_SIZED_RMA_
#undef SHMEM_FETCHING_
#undef SHMEM_EXTENDED_
#undef SHMEM_STANDARD_
#undef SHMEM_BITWISE_
#undef SHMEM_MODIFY_
#undef SHMEM_MANY_
#undef SHMEM_WAIT_
#undef SHMEM_DATA_
#undef SHMEM_COLLECTIVE_
#undef SHMEM_REDUCE_
#undef SHMEM_REDUCE_BITS_
#undef SHMEM_REDUCE_ORDER_
#undef SHMEM_REDUCE_SUMS_

#ifdef __cplusplus
}
#ifdef __clang__
#pragma clang diagnostic pop
#endif
#endif

#if defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L && !defined(__cplusplus)
#include "shmem_generic.h"
#endif
#ifdef __cplusplus
#include "shmem_overloads.h"
#endif
