/* SPDX-License-Identifier: BSD-3-Clause
 * The C shell: atomics, wait and test. */
#include "shell.h"

/* The two bodies, for variables `value` and `cond` of the type; cond matters to compare_swap only. */
#define UPDATE(_op, _type) SHELL(ishmemx_atomic(ctx, ISHMEMX_ATOMIC_##_op, _type, dest, TO_BITS(value), 0, pe, NULL))
#define FETCH(_op, _type, _ctype, _dest, _value, _cond)                                              \
    uint64_t old = 0;                                                                                \
    _ctype fetched;                                                                                  \
    SHELL(ishmemx_atomic(ctx, ISHMEMX_ATOMIC_##_op, _type, (void *)_dest, _value, _cond, pe, &old)); \
    memcpy(&fetched, &old, sizeof fetched);                                                          \
    return fetched

#define EXTENDED(_name, _ctype, _type)                                                                            \
    BOTH(_ctype, _name##_atomic_fetch, (const _ctype *source, int pe), FETCH(FETCH, _type, _ctype, source, 0, 0)) \
    BOTH(void, _name##_atomic_set, (_ctype * dest, _ctype value, int pe), UPDATE(SET, _type))                     \
    BOTH(_ctype, _name##_atomic_swap, (_ctype * dest, _ctype value, int pe),                                      \
         FETCH(SWAP, _type, _ctype, dest, TO_BITS(value), 0))
SHMEM_TYPENAMES_X(EXTENDED)

#define MODIFY(_name, _verb, _op, _ctype, _type)                                      \
    BOTH(_ctype, _name##_atomic_fetch_##_verb, (_ctype * dest, _ctype value, int pe), \
         FETCH(_op, _type, _ctype, dest, TO_BITS(value), 0))                          \
    BOTH(void, _name##_atomic_##_verb, (_ctype * dest, _ctype value, int pe), UPDATE(_op, _type))

#define STANDARD(_name, _ctype, _type)                                                                     \
    BOTH(_ctype, _name##_atomic_compare_swap, (_ctype * dest, _ctype cond, _ctype value, int pe),          \
         FETCH(COMPARE_SWAP, _type, _ctype, dest, TO_BITS(value), TO_BITS(cond)))                          \
    BOTH(_ctype, _name##_atomic_fetch_inc, (_ctype * dest, int pe), FETCH(ADD, _type, _ctype, dest, 1, 0)) \
    BOTH(void, _name##_atomic_inc, (_ctype * dest, int pe), const _ctype value = 1; UPDATE(ADD, _type))    \
    MODIFY(_name, add, ADD, _ctype, _type)
SHMEM_TYPENAMES_A(STANDARD)

#define BITWISE(_name, _ctype, _type)      \
    MODIFY(_name, and, AND, _ctype, _type) \
    MODIFY(_name, or, OR, _ctype, _type)   \
    MODIFY(_name, xor, XOR, _ctype, _type)
SHMEM_TYPENAMES_B(BITWISE)

#define WAIT(_name, _ctype, _type)                                              \
    void shmem_##_name##_wait_until(_ctype *ivar, int cmp, _ctype cmp_value) {  \
        SHELL(ishmemx_wait_until(_type, ivar, cmp, TO_BITS(cmp_value), NULL));  \
    }                                                                           \
    int shmem_##_name##_test(_ctype *ivar, int cmp, _ctype cmp_value) {         \
        return pysh_shell_test(__func__, _type, ivar, cmp, TO_BITS(cmp_value)); \
    }
static int pysh_shell_test(const char *routine, int type, const void *ivar, int cmp, uint64_t value) {
    int holds = 0;

    if (ishmemx_test(type, ivar, cmp, value, &holds))
        pysh_shell_die(routine);
    return holds;
}
SHMEM_TYPENAMES_A(WAIT)

uint64_t shmem_signal_wait_until(uint64_t *sig_addr, int cmp, uint64_t cmp_value) {
    uint64_t seen = 0;

    SHELL(ishmemx_wait_until(ISHMEMX_TYPE_UINT64, sig_addr, cmp, cmp_value, &seen));
    return seen;
}
