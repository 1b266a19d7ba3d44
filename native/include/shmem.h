/* SPDX-License-Identifier: BSD-3-Clause
 * OpenSHMEM for C: a typed shell over ishmemx.h. The lists SHMEM_TYPENAMES_* of shmem_types.h (a
 * letter a table of types in the specification) say which rows each family has.
 *
 * A routine without a result that fails prints what was wrong and ends the job; one with an int result
 * returns non-zero and leaves the text to ishmemx_error(). */
#pragma once

#include "ishmemx.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- library constants -------------------------------------------------------------------- */

#define SHMEM_MAJOR_VERSION 1
#define SHMEM_MINOR_VERSION 5
#define SHMEM_MAX_NAME_LEN  256
#define SHMEM_VENDOR_STRING "pyshmem"

#define SHMEM_CMP_EQ ISHMEMX_CMP_EQ
#define SHMEM_CMP_NE ISHMEMX_CMP_NE
#define SHMEM_CMP_GT ISHMEMX_CMP_GT
#define SHMEM_CMP_GE ISHMEMX_CMP_GE
#define SHMEM_CMP_LT ISHMEMX_CMP_LT
#define SHMEM_CMP_LE ISHMEMX_CMP_LE

#define SHMEM_SIGNAL_SET ISHMEMX_SIGNAL_SET
#define SHMEM_SIGNAL_ADD ISHMEMX_SIGNAL_ADD

/* ---- library handles ---------------------------------------------------------------------- */

typedef ishmemx_team_t shmem_team_t;
typedef ishmemx_ctx_t shmem_ctx_t;

#define SHMEM_TEAM_WORLD   (&ishmemx_team_world)
#define SHMEM_TEAM_INVALID ((shmem_team_t)0)
#define SHMEM_CTX_DEFAULT  (&ishmemx_ctx_default)
#define SHMEM_CTX_INVALID  ((shmem_ctx_t)0)

/* ---- setup, exit, query -------------------------------------------------------------------- */

ISHMEMX_API void shmem_init(void);
ISHMEMX_API void shmem_finalize(void);
ISHMEMX_API void shmem_global_exit(int status) __attribute__((noreturn));
ISHMEMX_API int shmem_my_pe(void);
ISHMEMX_API int shmem_n_pes(void);
ISHMEMX_API void shmem_info_get_version(int *major, int *minor);
ISHMEMX_API void shmem_info_get_name(char *name);

/* ---- memory -------------------------------------------------------------------------------- */

ISHMEMX_API void *shmem_malloc(size_t nbytes);
ISHMEMX_API void *shmem_calloc(size_t nelems, size_t nbytes);
ISHMEMX_API void *shmem_align(size_t alignment, size_t nbytes);
ISHMEMX_API void shmem_free(void *block);
ISHMEMX_API void *shmem_ptr(const void *dest, int pe);

/* ---- RMA and put with signal ---------------------------------------------------------------- */

/* Each with and without a context. _stem: the name after shmem_ and shmem_ctx_. nelems of the mem forms
 * counts bytes, of the sized forms elements of that many bits. */
#define SHMEM_COPY_(_stem, _ctype)                                                             \
    ISHMEMX_API void shmem_##_stem(_ctype *dest, const _ctype *source, size_t nelems, int pe); \
    ISHMEMX_API void shmem_ctx_##_stem(shmem_ctx_t ctx, _ctype *dest, const _ctype *source, size_t nelems, int pe);
#define SHMEM_PUT_SIGNAL_(_stem, _ctype)                                                                   \
    ISHMEMX_API void shmem_##_stem(_ctype *dest, const _ctype *source, size_t nelems, uint64_t *sig_addr,  \
                                   uint64_t signal, int sig_op, int pe);                                   \
    ISHMEMX_API void shmem_ctx_##_stem(shmem_ctx_t ctx, _ctype *dest, const _ctype *source, size_t nelems, \
                                       uint64_t *sig_addr, uint64_t signal, int sig_op, int pe);
#define SHMEM_RMA_(_put, _get, _ctype)       \
    SHMEM_COPY_(_put, _ctype)                \
    SHMEM_COPY_(_put##_nbi, _ctype)          \
    SHMEM_COPY_(_get, _ctype)                \
    SHMEM_COPY_(_get##_nbi, _ctype)          \
    SHMEM_PUT_SIGNAL_(_put##_signal, _ctype) \
    SHMEM_PUT_SIGNAL_(_put##_signal_nbi, _ctype)
#define SHMEM_TYPED_RMA_(_name, _ctype, _type)                                                   \
    SHMEM_RMA_(_name##_put, _name##_get, _ctype)                                                 \
    ISHMEMX_API void shmem_##_name##_p(_ctype *dest, _ctype value, int pe);                      \
    ISHMEMX_API void shmem_ctx_##_name##_p(shmem_ctx_t ctx, _ctype *dest, _ctype value, int pe); \
    ISHMEMX_API _ctype shmem_##_name##_g(const _ctype *source, int pe);                          \
    ISHMEMX_API _ctype shmem_ctx_##_name##_g(shmem_ctx_t ctx, const _ctype *source, int pe);
#define SHMEM_SIZED_RMA_(_bits) SHMEM_RMA_(put##_bits, get##_bits, void)

SHMEM_TYPENAMES_R(SHMEM_TYPED_RMA_)
SHMEM_SIZED_RMA_(8)
SHMEM_SIZED_RMA_(16)
SHMEM_SIZED_RMA_(32)
SHMEM_SIZED_RMA_(64)
SHMEM_SIZED_RMA_(128)
SHMEM_SIZED_RMA_(mem)

ISHMEMX_API uint64_t shmem_signal_fetch(const uint64_t *sig_addr);

/* ---- atomics ------------------------------------------------------------------------------- */

/* _result and _arguments of a routine shmem_NAME_atomic_VERB, which also has a form with a context. */
#define SHMEM_ATOMIC_(_result, _stem, ...)          \
    ISHMEMX_API _result shmem_##_stem(__VA_ARGS__); \
    ISHMEMX_API _result shmem_ctx_##_stem(shmem_ctx_t ctx, __VA_ARGS__);
#define SHMEM_EXTENDED_(_name, _ctype, _type)                                   \
    SHMEM_ATOMIC_(_ctype, _name##_atomic_fetch, const _ctype *source, int pe)   \
    SHMEM_ATOMIC_(void, _name##_atomic_set, _ctype *dest, _ctype value, int pe) \
    SHMEM_ATOMIC_(_ctype, _name##_atomic_swap, _ctype *dest, _ctype value, int pe)
#define SHMEM_STANDARD_(_name, _ctype, _type)                                                           \
    SHMEM_ATOMIC_(_ctype, _name##_atomic_compare_swap, _ctype *dest, _ctype cond, _ctype value, int pe) \
    SHMEM_ATOMIC_(_ctype, _name##_atomic_fetch_inc, _ctype *dest, int pe)                               \
    SHMEM_ATOMIC_(void, _name##_atomic_inc, _ctype *dest, int pe)                                       \
    SHMEM_ATOMIC_(_ctype, _name##_atomic_fetch_add, _ctype *dest, _ctype value, int pe)                 \
    SHMEM_ATOMIC_(void, _name##_atomic_add, _ctype *dest, _ctype value, int pe)
#define SHMEM_BITWISE_(_name, _ctype, _type)                                            \
    SHMEM_ATOMIC_(_ctype, _name##_atomic_fetch_and, _ctype *dest, _ctype value, int pe) \
    SHMEM_ATOMIC_(void, _name##_atomic_and, _ctype *dest, _ctype value, int pe)         \
    SHMEM_ATOMIC_(_ctype, _name##_atomic_fetch_or, _ctype *dest, _ctype value, int pe)  \
    SHMEM_ATOMIC_(void, _name##_atomic_or, _ctype *dest, _ctype value, int pe)          \
    SHMEM_ATOMIC_(_ctype, _name##_atomic_fetch_xor, _ctype *dest, _ctype value, int pe) \
    SHMEM_ATOMIC_(void, _name##_atomic_xor, _ctype *dest, _ctype value, int pe)

SHMEM_TYPENAMES_X(SHMEM_EXTENDED_)
SHMEM_TYPENAMES_A(SHMEM_STANDARD_)
SHMEM_TYPENAMES_B(SHMEM_BITWISE_)

/* ---- point-to-point synchronisation ---------------------------------------------------------- */

#define SHMEM_WAIT_(_name, _ctype, _type)                                                 \
    ISHMEMX_API void shmem_##_name##_wait_until(_ctype *ivar, int cmp, _ctype cmp_value); \
    ISHMEMX_API int shmem_##_name##_test(_ctype *ivar, int cmp, _ctype cmp_value);
SHMEM_TYPENAMES_A(SHMEM_WAIT_)
ISHMEMX_API uint64_t shmem_signal_wait_until(uint64_t *sig_addr, int cmp, uint64_t cmp_value);

/* ---- ordering, barrier, collectives ----------------------------------------------------------- */

ISHMEMX_API void shmem_fence(void);
ISHMEMX_API void shmem_ctx_fence(shmem_ctx_t ctx);
ISHMEMX_API void shmem_quiet(void);
ISHMEMX_API void shmem_ctx_quiet(shmem_ctx_t ctx);
ISHMEMX_API void shmem_barrier_all(void);
ISHMEMX_API void shmem_sync_all(void);
ISHMEMX_API int shmem_team_sync(shmem_team_t team);

#define SHMEM_COLLECTIVE_(_name, _ctype, _type)                                                                     \
    ISHMEMX_API int shmem_##_name##_broadcast(shmem_team_t team, _ctype *dest, const _ctype *source, size_t nelems, \
                                              int PE_root);                                                         \
    ISHMEMX_API int shmem_##_name##_fcollect(shmem_team_t team, _ctype *dest, const _ctype *source, size_t nelems);
SHMEM_TYPENAMES_R(SHMEM_COLLECTIVE_)
ISHMEMX_API int shmem_broadcastmem(shmem_team_t team, void *dest, const void *source, size_t nelems, int PE_root);
ISHMEMX_API int shmem_fcollectmem(shmem_team_t team, void *dest, const void *source, size_t nelems);

#define SHMEM_REDUCE_(_name, _ctype, _op)                                                                 \
    ISHMEMX_API int shmem_##_name##_##_op##_reduce(shmem_team_t team, _ctype *dest, const _ctype *source, \
                                                   size_t nreduce);
#define SHMEM_REDUCE_BITS_(_name, _ctype, _type) \
    SHMEM_REDUCE_(_name, _ctype, and) SHMEM_REDUCE_(_name, _ctype, or) SHMEM_REDUCE_(_name, _ctype, xor)
#define SHMEM_REDUCE_ORDER_(_name, _ctype, _type) SHMEM_REDUCE_(_name, _ctype, max) SHMEM_REDUCE_(_name, _ctype, min)
#define SHMEM_REDUCE_SUMS_(_name, _ctype, _type)  SHMEM_REDUCE_(_name, _ctype, sum) SHMEM_REDUCE_(_name, _ctype, prod)
SHMEM_TYPENAMES_T(SHMEM_REDUCE_BITS_)
SHMEM_TYPENAMES_M(SHMEM_REDUCE_ORDER_)
SHMEM_TYPENAMES_S(SHMEM_REDUCE_SUMS_)

#undef SHMEM_COPY_
#undef SHMEM_PUT_SIGNAL_
#undef SHMEM_RMA_
#undef SHMEM_TYPED_RMA_
#undef SHMEM_SIZED_RMA_
#undef SHMEM_ATOMIC_
#undef SHMEM_EXTENDED_
#undef SHMEM_STANDARD_
#undef SHMEM_BITWISE_
#undef SHMEM_WAIT_
#undef SHMEM_COLLECTIVE_
#undef SHMEM_REDUCE_
#undef SHMEM_REDUCE_BITS_
#undef SHMEM_REDUCE_ORDER_
#undef SHMEM_REDUCE_SUMS_

#ifdef __cplusplus
}
#endif
