/* SPDX-License-Identifier: BSD-3-Clause
 * The C shell: atomics. */
#include <stdint.h>

#include "api/shell.h"
#include "ishmemx.h"

/* Bodies for variables `value` and `cond` of the type; cond matters to compare_swap only. */
#define UPDATE(_op, _type) SHELL(ishmemx_atomic(ctx, ISHMEMX_ATOMIC_##_op, _type, dest, TO_BITS(value), 0, pe, NULL))
#define FETCH(_op, _type, _ctype, _dest, _value, _cond)                                              \
    uint64_t old = 0;                                                                                \
    _ctype fetched;                                                                                  \
    SHELL(ishmemx_atomic(ctx, ISHMEMX_ATOMIC_##_op, _type, (void *)_dest, _value, _cond, pe, &old)); \
    memcpy(&fetched, &old, sizeof fetched);                                                          \
    return fetched

/* A fetching routine and its non-blocking form. */
#define FETCHING(_stem, _arguments, _op, _type, _ctype, _dest, _value, _cond)        \
    BOTH(_ctype, _stem, _arguments, FETCH(_op, _type, _ctype, _dest, _value, _cond)) \
    BOTH(void, _stem##_nbi, (_ctype * fetch, PYSH_ARGUMENTS _arguments),             \
         SHELL(ishmemx_atomic_nbi(ctx, ISHMEMX_ATOMIC_##_op, _type, fetch, (void *)_dest, _value, _cond, pe)))

#define EXTENDED(_name, _ctype, _type)                                                                 \
    FETCHING(_name##_atomic_fetch, (const _ctype *source, int pe), FETCH, _type, _ctype, source, 0, 0) \
    BOTH(void, _name##_atomic_set, (_ctype * dest, _ctype value, int pe), UPDATE(SET, _type))          \
    FETCHING(_name##_atomic_swap, (_ctype * dest, _ctype value, int pe), SWAP, _type, _ctype, dest, TO_BITS(value), 0)
SHMEM_TYPENAMES_X(EXTENDED)

#define MODIFY(_name, _verb, _op, _ctype, _type)                                                            \
    FETCHING(_name##_atomic_fetch_##_verb, (_ctype * dest, _ctype value, int pe), _op, _type, _ctype, dest, \
             TO_BITS(value), 0)                                                                             \
    BOTH(void, _name##_atomic_##_verb, (_ctype * dest, _ctype value, int pe), UPDATE(_op, _type))

#define STANDARD(_name, _ctype, _type)                                                                             \
    FETCHING(_name##_atomic_compare_swap, (_ctype * dest, _ctype cond, _ctype value, int pe), COMPARE_SWAP, _type, \
             _ctype, dest, TO_BITS(value), TO_BITS(cond))                                                          \
    FETCHING(_name##_atomic_fetch_inc, (_ctype * dest, int pe), ADD, _type, _ctype, dest, 1, 0)                    \
    BOTH(void, _name##_atomic_inc, (_ctype * dest, int pe), const _ctype value = 1; UPDATE(ADD, _type))            \
    MODIFY(_name, add, ADD, _ctype, _type)
SHMEM_TYPENAMES_A(STANDARD)

#define BITWISE(_name, _ctype, _type)      \
    MODIFY(_name, and, AND, _ctype, _type) \
    MODIFY(_name, or, OR, _ctype, _type)   \
    MODIFY(_name, xor, XOR, _ctype, _type)
SHMEM_TYPENAMES_B(BITWISE)
