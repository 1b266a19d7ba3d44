/* SPDX-License-Identifier: BSD-3-Clause
 * The C11 generic interfaces: the type of a pointer argument chooses the routine. Included by shmem.h. */
#pragma once

/* Reached by a call with a type that the routine has no form for: too many arguments. */
void shmem_no_routine_for_this_type(void);

/* What goes into a _Generic for one type, and for the types of each table that are different types: the names of
 * exact width are other names of these. A table is of smaller ones, and ends with what no other type has a form of. */
#define SHMEM_C11_ONE_(_name, _ctype, _head, _tail) \
    _ctype * : _head##_name##_tail, const _ctype * : _head##_name##_tail,
#define SHMEM_C11_END_ \
    default:           \
        shmem_no_routine_for_this_type
#define SHMEM_C11_UNSIGNED_(_head, _tail)              \
    SHMEM_C11_ONE_(uint, unsigned int, _head, _tail)   \
    SHMEM_C11_ONE_(ulong, unsigned long, _head, _tail) \
    SHMEM_C11_ONE_(ulonglong, unsigned long long, _head, _tail)
#define SHMEM_C11_SIGNED_(_head, _tail)      \
    SHMEM_C11_ONE_(int, int, _head, _tail)   \
    SHMEM_C11_ONE_(long, long, _head, _tail) \
    SHMEM_C11_ONE_(longlong, long long, _head, _tail)
#define SHMEM_C11_REAL_(_head, _tail)          \
    SHMEM_C11_ONE_(float, float, _head, _tail) \
    SHMEM_C11_ONE_(double, double, _head, _tail)
#define SHMEM_C11_SHORTS_(_head, _tail)        \
    SHMEM_C11_ONE_(short, short, _head, _tail) \
    SHMEM_C11_ONE_(ushort, unsigned short, _head, _tail)
#define SHMEM_C11_STANDARD_(_head, _tail)                 \
    SHMEM_C11_REAL_(_head, _tail)                         \
    SHMEM_C11_ONE_(longdouble, long double, _head, _tail) \
    SHMEM_C11_ONE_(char, char, _head, _tail)              \
    SHMEM_C11_ONE_(schar, signed char, _head, _tail)      \
    SHMEM_C11_ONE_(uchar, unsigned char, _head, _tail)    \
    SHMEM_C11_SHORTS_(_head, _tail)                       \
    SHMEM_C11_SIGNED_(_head, _tail)                       \
    SHMEM_C11_UNSIGNED_(_head, _tail)

#define SHMEM_C11_R_(_head, _tail)    SHMEM_C11_STANDARD_(_head, _tail) SHMEM_C11_END_
#define SHMEM_C11_A_(_head, _tail)    SHMEM_C11_SIGNED_(_head, _tail) SHMEM_C11_UNSIGNED_(_head, _tail) SHMEM_C11_END_
#define SHMEM_C11_X_(_head, _tail)    SHMEM_C11_REAL_(_head, _tail) SHMEM_C11_A_(_head, _tail)
#define SHMEM_C11_WAIT_(_head, _tail) SHMEM_C11_SHORTS_(_head, _tail) SHMEM_C11_A_(_head, _tail)
#define SHMEM_C11_OLD_WAIT_(_head, _tail)      \
    SHMEM_C11_ONE_(short, short, _head, _tail) \
    SHMEM_C11_SIGNED_(_head, _tail)            \
    SHMEM_C11_END_
#define SHMEM_C11_B_(_head, _tail)               \
    SHMEM_C11_UNSIGNED_(_head, _tail)            \
    SHMEM_C11_ONE_(int32, int32_t, _head, _tail) \
    SHMEM_C11_ONE_(int64, int64_t, _head, _tail) \
    SHMEM_C11_END_
#define SHMEM_C11_S_(_head, _tail)                          \
    SHMEM_C11_ONE_(complexf, float _Complex, _head, _tail)  \
    SHMEM_C11_ONE_(complexd, double _Complex, _head, _tail) \
    SHMEM_C11_R_(_head, _tail)
#define SHMEM_C11_T_(_head, _tail)                       \
    SHMEM_C11_ONE_(uchar, unsigned char, _head, _tail)   \
    SHMEM_C11_ONE_(ushort, unsigned short, _head, _tail) \
    SHMEM_C11_ONE_(int8, int8_t, _head, _tail)           \
    SHMEM_C11_ONE_(int16, int16_t, _head, _tail)         \
    SHMEM_C11_ONE_(longlong, long long, _head, _tail)    \
    SHMEM_C11_B_(_head, _tail)
#define SHMEM_C11_M_ SHMEM_C11_R_

#define SHMEM_C11_FIRST_(_a, ...)      _a
#define SHMEM_C11_SECOND_(_a, _b, ...) _b
/* By the type of the first, or of the second argument. */
#define SHMEM_C11_BY_FIRST_(_list, _head, _tail, ...) \
    _Generic(SHMEM_C11_FIRST_(__VA_ARGS__, 0), SHMEM_C11_##_list##_(_head, _tail))
#define SHMEM_C11_BY_SECOND_(_list, _head, _tail, ...) \
    _Generic(SHMEM_C11_SECOND_(__VA_ARGS__, 0, 0), SHMEM_C11_##_list##_(_head, _tail))
/* A call whose first argument may be a context; one on the caller's own memory; one of a team. */
#define SHMEM_C11_CTX_(_list, _tail, ...)                                         \
    _Generic(SHMEM_C11_FIRST_(__VA_ARGS__, 0),                                    \
        shmem_ctx_t: SHMEM_C11_BY_SECOND_(_list, shmem_ctx_, _tail, __VA_ARGS__), \
        default: SHMEM_C11_BY_FIRST_(_list, shmem_, _tail, __VA_ARGS__))(__VA_ARGS__)
#define SHMEM_C11_OWN_(_list, _tail, ...)  SHMEM_C11_BY_FIRST_(_list, shmem_, _tail, __VA_ARGS__)(__VA_ARGS__)
#define SHMEM_C11_TEAM_(_list, _tail, ...) SHMEM_C11_BY_SECOND_(_list, shmem_, _tail, __VA_ARGS__)(__VA_ARGS__)

#define shmem_p(...)              SHMEM_C11_CTX_(R, _p, __VA_ARGS__)
#define shmem_g(...)              SHMEM_C11_CTX_(R, _g, __VA_ARGS__)
#define shmem_put(...)            SHMEM_C11_CTX_(R, _put, __VA_ARGS__)
#define shmem_get(...)            SHMEM_C11_CTX_(R, _get, __VA_ARGS__)
#define shmem_put_nbi(...)        SHMEM_C11_CTX_(R, _put_nbi, __VA_ARGS__)
#define shmem_get_nbi(...)        SHMEM_C11_CTX_(R, _get_nbi, __VA_ARGS__)
#define shmem_iput(...)           SHMEM_C11_CTX_(R, _iput, __VA_ARGS__)
#define shmem_iget(...)           SHMEM_C11_CTX_(R, _iget, __VA_ARGS__)
#define shmem_ibput(...)          SHMEM_C11_CTX_(R, _ibput, __VA_ARGS__)
#define shmem_ibget(...)          SHMEM_C11_CTX_(R, _ibget, __VA_ARGS__)
#define shmem_put_signal(...)     SHMEM_C11_CTX_(R, _put_signal, __VA_ARGS__)
#define shmem_put_signal_nbi(...) SHMEM_C11_CTX_(R, _put_signal_nbi, __VA_ARGS__)

#define shmem_atomic_fetch(...)     SHMEM_C11_CTX_(X, _atomic_fetch, __VA_ARGS__)
#define shmem_atomic_set(...)       SHMEM_C11_CTX_(X, _atomic_set, __VA_ARGS__)
#define shmem_atomic_swap(...)      SHMEM_C11_CTX_(X, _atomic_swap, __VA_ARGS__)
#define shmem_atomic_fetch_nbi(...) SHMEM_C11_CTX_(X, _atomic_fetch_nbi, __VA_ARGS__)
#define shmem_atomic_swap_nbi(...)  SHMEM_C11_CTX_(X, _atomic_swap_nbi, __VA_ARGS__)

#define shmem_atomic_compare_swap(...)     SHMEM_C11_CTX_(A, _atomic_compare_swap, __VA_ARGS__)
#define shmem_atomic_fetch_inc(...)        SHMEM_C11_CTX_(A, _atomic_fetch_inc, __VA_ARGS__)
#define shmem_atomic_inc(...)              SHMEM_C11_CTX_(A, _atomic_inc, __VA_ARGS__)
#define shmem_atomic_fetch_add(...)        SHMEM_C11_CTX_(A, _atomic_fetch_add, __VA_ARGS__)
#define shmem_atomic_add(...)              SHMEM_C11_CTX_(A, _atomic_add, __VA_ARGS__)
#define shmem_atomic_compare_swap_nbi(...) SHMEM_C11_CTX_(A, _atomic_compare_swap_nbi, __VA_ARGS__)
#define shmem_atomic_fetch_inc_nbi(...)    SHMEM_C11_CTX_(A, _atomic_fetch_inc_nbi, __VA_ARGS__)
#define shmem_atomic_fetch_add_nbi(...)    SHMEM_C11_CTX_(A, _atomic_fetch_add_nbi, __VA_ARGS__)

#define shmem_atomic_fetch_and(...)     SHMEM_C11_CTX_(B, _atomic_fetch_and, __VA_ARGS__)
#define shmem_atomic_and(...)           SHMEM_C11_CTX_(B, _atomic_and, __VA_ARGS__)
#define shmem_atomic_fetch_and_nbi(...) SHMEM_C11_CTX_(B, _atomic_fetch_and_nbi, __VA_ARGS__)
#define shmem_atomic_fetch_or(...)      SHMEM_C11_CTX_(B, _atomic_fetch_or, __VA_ARGS__)
#define shmem_atomic_or(...)            SHMEM_C11_CTX_(B, _atomic_or, __VA_ARGS__)
#define shmem_atomic_fetch_or_nbi(...)  SHMEM_C11_CTX_(B, _atomic_fetch_or_nbi, __VA_ARGS__)
#define shmem_atomic_fetch_xor(...)     SHMEM_C11_CTX_(B, _atomic_fetch_xor, __VA_ARGS__)
#define shmem_atomic_xor(...)           SHMEM_C11_CTX_(B, _atomic_xor, __VA_ARGS__)
#define shmem_atomic_fetch_xor_nbi(...) SHMEM_C11_CTX_(B, _atomic_fetch_xor_nbi, __VA_ARGS__)

#define shmem_wait_until(...)             SHMEM_C11_OWN_(WAIT, _wait_until, __VA_ARGS__)
#define shmem_test(...)                   SHMEM_C11_OWN_(WAIT, _test, __VA_ARGS__)
#define shmem_wait_until_all(...)         SHMEM_C11_OWN_(WAIT, _wait_until_all, __VA_ARGS__)
#define shmem_wait_until_all_vector(...)  SHMEM_C11_OWN_(WAIT, _wait_until_all_vector, __VA_ARGS__)
#define shmem_wait_until_any(...)         SHMEM_C11_OWN_(WAIT, _wait_until_any, __VA_ARGS__)
#define shmem_wait_until_any_vector(...)  SHMEM_C11_OWN_(WAIT, _wait_until_any_vector, __VA_ARGS__)
#define shmem_wait_until_some(...)        SHMEM_C11_OWN_(WAIT, _wait_until_some, __VA_ARGS__)
#define shmem_wait_until_some_vector(...) SHMEM_C11_OWN_(WAIT, _wait_until_some_vector, __VA_ARGS__)
#define shmem_test_all(...)               SHMEM_C11_OWN_(WAIT, _test_all, __VA_ARGS__)
#define shmem_test_all_vector(...)        SHMEM_C11_OWN_(WAIT, _test_all_vector, __VA_ARGS__)
#define shmem_test_any(...)               SHMEM_C11_OWN_(WAIT, _test_any, __VA_ARGS__)
#define shmem_test_any_vector(...)        SHMEM_C11_OWN_(WAIT, _test_any_vector, __VA_ARGS__)
#define shmem_test_some(...)              SHMEM_C11_OWN_(WAIT, _test_some, __VA_ARGS__)
#define shmem_test_some_vector(...)       SHMEM_C11_OWN_(WAIT, _test_some_vector, __VA_ARGS__)

/* The names of before 1.4, for all types of those that came in their place. */
#define shmem_fetch(...) SHMEM_C11_OWN_(X, _atomic_fetch, __VA_ARGS__)
#define shmem_set(...)   SHMEM_C11_OWN_(X, _atomic_set, __VA_ARGS__)
#define shmem_swap(...)  SHMEM_C11_OWN_(X, _atomic_swap, __VA_ARGS__)
#define shmem_cswap(...) SHMEM_C11_OWN_(A, _atomic_compare_swap, __VA_ARGS__)
#define shmem_finc(...)  SHMEM_C11_OWN_(A, _atomic_fetch_inc, __VA_ARGS__)
#define shmem_inc(...)   SHMEM_C11_OWN_(A, _atomic_inc, __VA_ARGS__)
#define shmem_fadd(...)  SHMEM_C11_OWN_(A, _atomic_fetch_add, __VA_ARGS__)
#define shmem_add(...)   SHMEM_C11_OWN_(A, _atomic_add, __VA_ARGS__)
#define shmem_wait(...)  SHMEM_C11_OWN_(OLD_WAIT, _wait, __VA_ARGS__)

#define shmem_broadcast(...) SHMEM_C11_TEAM_(R, _broadcast, __VA_ARGS__)
#define shmem_collect(...)   SHMEM_C11_TEAM_(R, _collect, __VA_ARGS__)
#define shmem_fcollect(...)  SHMEM_C11_TEAM_(R, _fcollect, __VA_ARGS__)
#define shmem_alltoall(...)  SHMEM_C11_TEAM_(R, _alltoall, __VA_ARGS__)
#define shmem_alltoalls(...) SHMEM_C11_TEAM_(R, _alltoalls, __VA_ARGS__)

#define shmem_and_reduce(...) SHMEM_C11_TEAM_(T, _and_reduce, __VA_ARGS__)
#define shmem_or_reduce(...)  SHMEM_C11_TEAM_(T, _or_reduce, __VA_ARGS__)
#define shmem_xor_reduce(...) SHMEM_C11_TEAM_(T, _xor_reduce, __VA_ARGS__)

#define shmem_max_reduce(...) SHMEM_C11_TEAM_(M, _max_reduce, __VA_ARGS__)
#define shmem_min_reduce(...) SHMEM_C11_TEAM_(M, _min_reduce, __VA_ARGS__)

#define shmem_sum_reduce(...)  SHMEM_C11_TEAM_(S, _sum_reduce, __VA_ARGS__)
#define shmem_prod_reduce(...) SHMEM_C11_TEAM_(S, _prod_reduce, __VA_ARGS__)
#define shmem_sum_inscan(...)  SHMEM_C11_TEAM_(S, _sum_inscan, __VA_ARGS__)
#define shmem_sum_exscan(...)  SHMEM_C11_TEAM_(S, _sum_exscan, __VA_ARGS__)

/* A team, or an active set. */
#define shmem_sync(...) \
    _Generic(SHMEM_C11_FIRST_(__VA_ARGS__, 0), shmem_team_t: shmem_team_sync, default: shmem_sync)(__VA_ARGS__)
