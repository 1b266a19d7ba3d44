/* SPDX-License-Identifier: BSD-3-Clause
 * The generic interfaces for C++, as overloads: an extension, since the specification has them for C11 only. Included
 * by shmem.h. Types as in shmem_generic.h, without the complex ones. */
#pragma once

#define SHMEM_CXX_B_(X_)   \
    X_(uint, unsigned int) \
    X_(ulong, unsigned long) X_(ulonglong, unsigned long long) X_(int32, int32_t) X_(int64, int64_t)
#define SHMEM_CXX_I_(X_) /* integers, long apart */ \
    X_(int, int)                                    \
    X_(longlong, long long) X_(uint, unsigned int) X_(ulong, unsigned long) X_(ulonglong, unsigned long long)
#define SHMEM_CXX_A_(X_) SHMEM_CXX_I_(X_) X_(long, long)
#define SHMEM_CXX_X_(X_) SHMEM_CXX_A_(X_) X_(float, float) X_(double, double)
#define SHMEM_CXX_R_(X_)        \
    SHMEM_CXX_X_(X_)            \
    X_(longdouble, long double) \
    X_(char, char) X_(schar, signed char) X_(short, short) X_(uchar, unsigned char) X_(ushort, unsigned short)
#define SHMEM_CXX_T_(X_) \
    SHMEM_CXX_B_(X_)     \
    X_(uchar, unsigned char) X_(ushort, unsigned short) X_(int8, int8_t) X_(int16, int16_t) X_(longlong, long long)
#define SHMEM_CXX_SHORTS_(X_) X_(short, short) X_(ushort, unsigned short)

/* One routine for one type; and its form with a context. Parameters and arguments come in parentheses. */
#define SHMEM_CXX_LIST_(...) __VA_ARGS__
#define SHMEM_CXX_ONE_(_result, _name, _tail, _parameters, _arguments) \
    static inline _result shmem_##_tail _parameters {                  \
        return shmem_##_name##_##_tail _arguments;                     \
    }
#define SHMEM_CXX_BOTH_(_result, _name, _tail, _parameters, _arguments)                 \
    SHMEM_CXX_ONE_(_result, _name, _tail, _parameters, _arguments)                      \
    static inline _result shmem_##_tail(shmem_ctx_t ctx, SHMEM_CXX_LIST_ _parameters) { \
        return shmem_ctx_##_name##_##_tail(ctx, SHMEM_CXX_LIST_ _arguments);            \
    }

/* ---- put, get, signals ------------------------------------------------------------------------- */

#define SHMEM_CXX_COPY_(_name, _ctype, _tail)                                                         \
    SHMEM_CXX_BOTH_(void, _name, _tail, (_ctype * dest, const _ctype *source, size_t nelems, int pe), \
                    (dest, source, nelems, pe))
#define SHMEM_CXX_STRIDED_(_name, _ctype, _verb)                                                                   \
    SHMEM_CXX_BOTH_(void, _name, i##_verb,                                                                         \
                    (_ctype * dest, const _ctype *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe),    \
                    (dest, source, dst, sst, nelems, pe))                                                          \
    SHMEM_CXX_BOTH_(                                                                                               \
        void, _name, ib##_verb,                                                                                    \
        (_ctype * dest, const _ctype *source, ptrdiff_t dst, ptrdiff_t sst, size_t bsize, size_t nblocks, int pe), \
        (dest, source, dst, sst, bsize, nblocks, pe))
#define SHMEM_CXX_SIGNAL_(_name, _ctype, _tail)                                                                        \
    SHMEM_CXX_BOTH_(                                                                                                   \
        void, _name, _tail,                                                                                            \
        (_ctype * dest, const _ctype *source, size_t nelems, uint64_t *sig_addr, uint64_t signal, int sig_op, int pe), \
        (dest, source, nelems, sig_addr, signal, sig_op, pe))
#define SHMEM_CXX_RMA_(_name, _ctype)                                                         \
    SHMEM_CXX_BOTH_(void, _name, p, (_ctype * dest, _ctype value, int pe), (dest, value, pe)) \
    SHMEM_CXX_BOTH_(_ctype, _name, g, (const _ctype *source, int pe), (source, pe))           \
    SHMEM_CXX_COPY_(_name, _ctype, put)                                                       \
    SHMEM_CXX_COPY_(_name, _ctype, get)                                                       \
    SHMEM_CXX_COPY_(_name, _ctype, put_nbi)                                                   \
    SHMEM_CXX_COPY_(_name, _ctype, get_nbi)                                                   \
    SHMEM_CXX_STRIDED_(_name, _ctype, put)                                                    \
    SHMEM_CXX_STRIDED_(_name, _ctype, get)                                                    \
    SHMEM_CXX_SIGNAL_(_name, _ctype, put_signal)                                              \
    SHMEM_CXX_SIGNAL_(_name, _ctype, put_signal_nbi)
SHMEM_CXX_R_(SHMEM_CXX_RMA_)

/* ---- atomics ----------------------------------------------------------------------------------- */

#define SHMEM_CXX_FETCH_(_name, _ctype, _tail)                                                                \
    SHMEM_CXX_BOTH_(_ctype, _name, atomic_##_tail, (_ctype * dest, _ctype value, int pe), (dest, value, pe))  \
    SHMEM_CXX_BOTH_(void, _name, atomic_##_tail##_nbi, (_ctype * fetch, _ctype * dest, _ctype value, int pe), \
                    (fetch, dest, value, pe))
#define SHMEM_CXX_EXTENDED_(_name, _ctype)                                                             \
    SHMEM_CXX_BOTH_(_ctype, _name, atomic_fetch, (const _ctype *source, int pe), (source, pe))         \
    SHMEM_CXX_BOTH_(void, _name, atomic_fetch_nbi, (_ctype * fetch, const _ctype *source, int pe),     \
                    (fetch, source, pe))                                                               \
    SHMEM_CXX_BOTH_(void, _name, atomic_set, (_ctype * dest, _ctype value, int pe), (dest, value, pe)) \
    SHMEM_CXX_FETCH_(_name, _ctype, swap)
#define SHMEM_CXX_STANDARD_(_name, _ctype)                                                                         \
    SHMEM_CXX_BOTH_(_ctype, _name, atomic_compare_swap, (_ctype * dest, _ctype cond, _ctype value, int pe),        \
                    (dest, cond, value, pe))                                                                       \
    SHMEM_CXX_BOTH_(void, _name, atomic_compare_swap_nbi,                                                          \
                    (_ctype * fetch, _ctype * dest, _ctype cond, _ctype value, int pe),                            \
                    (fetch, dest, cond, value, pe))                                                                \
    SHMEM_CXX_BOTH_(_ctype, _name, atomic_fetch_inc, (_ctype * dest, int pe), (dest, pe))                          \
    SHMEM_CXX_BOTH_(void, _name, atomic_fetch_inc_nbi, (_ctype * fetch, _ctype * dest, int pe), (fetch, dest, pe)) \
    SHMEM_CXX_BOTH_(void, _name, atomic_inc, (_ctype * dest, int pe), (dest, pe))                                  \
    SHMEM_CXX_BOTH_(void, _name, atomic_add, (_ctype * dest, _ctype value, int pe), (dest, value, pe))             \
    SHMEM_CXX_FETCH_(_name, _ctype, fetch_add)
#define SHMEM_CXX_BITWISE_(_name, _ctype)                                                              \
    SHMEM_CXX_BOTH_(void, _name, atomic_and, (_ctype * dest, _ctype value, int pe), (dest, value, pe)) \
    SHMEM_CXX_BOTH_(void, _name, atomic_or, (_ctype * dest, _ctype value, int pe), (dest, value, pe))  \
    SHMEM_CXX_BOTH_(void, _name, atomic_xor, (_ctype * dest, _ctype value, int pe), (dest, value, pe)) \
    SHMEM_CXX_FETCH_(_name, _ctype, fetch_and)                                                         \
    SHMEM_CXX_FETCH_(_name, _ctype, fetch_or)                                                          \
    SHMEM_CXX_FETCH_(_name, _ctype, fetch_xor)
SHMEM_CXX_X_(SHMEM_CXX_EXTENDED_)
SHMEM_CXX_A_(SHMEM_CXX_STANDARD_)
SHMEM_CXX_B_(SHMEM_CXX_BITWISE_)

/* The names of before 1.4, for all types of those that came in their place. */
#define SHMEM_CXX_OLD_(_result, _name, _old, _tail, _parameters, _arguments) \
    static inline _result shmem_##_old _parameters {                         \
        return shmem_##_name##_atomic_##_tail _arguments;                    \
    }
#define SHMEM_CXX_OLD_EXTENDED_(_name, _ctype)                                                      \
    SHMEM_CXX_OLD_(_ctype, _name, fetch, fetch, (const _ctype *source, int pe), (source, pe))       \
    SHMEM_CXX_OLD_(void, _name, set, set, (_ctype * dest, _ctype value, int pe), (dest, value, pe)) \
    SHMEM_CXX_OLD_(_ctype, _name, swap, swap, (_ctype * dest, _ctype value, int pe), (dest, value, pe))
#define SHMEM_CXX_OLD_STANDARD_(_name, _ctype)                                                               \
    SHMEM_CXX_OLD_(_ctype, _name, cswap, compare_swap, (_ctype * dest, _ctype cond, _ctype value, int pe),   \
                   (dest, cond, value, pe))                                                                  \
    SHMEM_CXX_OLD_(_ctype, _name, finc, fetch_inc, (_ctype * dest, int pe), (dest, pe))                      \
    SHMEM_CXX_OLD_(void, _name, inc, inc, (_ctype * dest, int pe), (dest, pe))                               \
    SHMEM_CXX_OLD_(_ctype, _name, fadd, fetch_add, (_ctype * dest, _ctype value, int pe), (dest, value, pe)) \
    SHMEM_CXX_OLD_(void, _name, add, add, (_ctype * dest, _ctype value, int pe), (dest, value, pe))
SHMEM_CXX_X_(SHMEM_CXX_OLD_EXTENDED_)
SHMEM_CXX_A_(SHMEM_CXX_OLD_STANDARD_)

/* ---- waits; shmem_wait_until for long is a C function of old ------------------------------------- */

#define SHMEM_CXX_UNTIL_(_name, _ctype) \
    SHMEM_CXX_ONE_(void, _name, wait_until, (_ctype * ivar, int cmp, _ctype cmp_value), (ivar, cmp, cmp_value))
#define SHMEM_CXX_MANY_(_name, _ctype, _vector, _value)                                                                \
    SHMEM_CXX_ONE_(void, _name, wait_until_all##_vector,                                                               \
                   (_ctype * ivars, size_t nelems, const int *status, int cmp, _value),                                \
                   (ivars, nelems, status, cmp, values))                                                               \
    SHMEM_CXX_ONE_(size_t, _name, wait_until_any##_vector,                                                             \
                   (_ctype * ivars, size_t nelems, const int *status, int cmp, _value),                                \
                   (ivars, nelems, status, cmp, values))                                                               \
    SHMEM_CXX_ONE_(size_t, _name, wait_until_some##_vector,                                                            \
                   (_ctype * ivars, size_t nelems, size_t *indices, const int *status, int cmp, _value),               \
                   (ivars, nelems, indices, status, cmp, values))                                                      \
    SHMEM_CXX_ONE_(int, _name, test_all##_vector, (_ctype * ivars, size_t nelems, const int *status, int cmp, _value), \
                   (ivars, nelems, status, cmp, values))                                                               \
    SHMEM_CXX_ONE_(size_t, _name, test_any##_vector,                                                                   \
                   (_ctype * ivars, size_t nelems, const int *status, int cmp, _value),                                \
                   (ivars, nelems, status, cmp, values))                                                               \
    SHMEM_CXX_ONE_(size_t, _name, test_some##_vector,                                                                  \
                   (_ctype * ivars, size_t nelems, size_t *indices, const int *status, int cmp, _value),               \
                   (ivars, nelems, indices, status, cmp, values))
#define SHMEM_CXX_TEST_(_name, _ctype)                                                                   \
    SHMEM_CXX_ONE_(int, _name, test, (_ctype * ivar, int cmp, _ctype cmp_value), (ivar, cmp, cmp_value)) \
    SHMEM_CXX_MANY_(_name, _ctype, , _ctype values)                                                      \
    SHMEM_CXX_MANY_(_name, _ctype, _vector, const _ctype *values)
SHMEM_CXX_I_(SHMEM_CXX_UNTIL_)
SHMEM_CXX_SHORTS_(SHMEM_CXX_UNTIL_)
SHMEM_CXX_A_(SHMEM_CXX_TEST_)
SHMEM_CXX_SHORTS_(SHMEM_CXX_TEST_)

#define SHMEM_CXX_WAIT_(_name, _ctype) \
    SHMEM_CXX_ONE_(void, _name, wait, (_ctype * ivar, _ctype cmp_value), (ivar, cmp_value))
SHMEM_CXX_WAIT_(short, short)
SHMEM_CXX_WAIT_(int, int)
SHMEM_CXX_WAIT_(longlong, long long)

/* ---- collectives ------------------------------------------------------------------------------- */

static inline int shmem_sync(shmem_team_t team) {
    return shmem_team_sync(team);
}

#define SHMEM_CXX_TEAM_(_name, _ctype, _tail)                                                                  \
    SHMEM_CXX_ONE_(int, _name, _tail, (shmem_team_t team, _ctype * dest, const _ctype *source, size_t nelems), \
                   (team, dest, source, nelems))
#define SHMEM_CXX_DATA_(_name, _ctype)                                                                         \
    SHMEM_CXX_ONE_(int, _name, broadcast,                                                                      \
                   (shmem_team_t team, _ctype * dest, const _ctype *source, size_t nelems, int root),          \
                   (team, dest, source, nelems, root))                                                         \
    SHMEM_CXX_ONE_(                                                                                            \
        int, _name, alltoalls,                                                                                 \
        (shmem_team_t team, _ctype * dest, const _ctype *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems), \
        (team, dest, source, dst, sst, nelems))                                                                \
    SHMEM_CXX_TEAM_(_name, _ctype, collect)                                                                    \
    SHMEM_CXX_TEAM_(_name, _ctype, fcollect)                                                                   \
    SHMEM_CXX_TEAM_(_name, _ctype, alltoall)                                                                   \
    SHMEM_CXX_TEAM_(_name, _ctype, max_reduce)                                                                 \
    SHMEM_CXX_TEAM_(_name, _ctype, min_reduce)                                                                 \
    SHMEM_CXX_TEAM_(_name, _ctype, sum_reduce)                                                                 \
    SHMEM_CXX_TEAM_(_name, _ctype, prod_reduce)                                                                \
    SHMEM_CXX_TEAM_(_name, _ctype, sum_inscan)                                                                 \
    SHMEM_CXX_TEAM_(_name, _ctype, sum_exscan)
#define SHMEM_CXX_BITS_(_name, _ctype)         \
    SHMEM_CXX_TEAM_(_name, _ctype, and_reduce) \
    SHMEM_CXX_TEAM_(_name, _ctype, or_reduce)  \
    SHMEM_CXX_TEAM_(_name, _ctype, xor_reduce)
SHMEM_CXX_R_(SHMEM_CXX_DATA_)
SHMEM_CXX_T_(SHMEM_CXX_BITS_)
