/* SPDX-License-Identifier: BSD-3-Clause
 * Atomic operations of the CPU, by number of operation and type. Values are bits in a uint64_t; those of 4-byte types
 * are the low half. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/elements.h"
#include "ishmemx.h"

/* pysh_amo_32 and pysh_amo_64. */
#define PYSH_AMO_OF(_bits)                                                                              \
    static inline uint64_t pysh_amo_##_bits(int op, uint##_bits##_t *word, uint##_bits##_t value,       \
                                            uint##_bits##_t cond) {                                     \
        switch (op) {                                                                                   \
        case ISHMEMX_ATOMIC_FETCH:                                                                      \
            return __atomic_load_n(word, __ATOMIC_SEQ_CST);                                             \
        case ISHMEMX_ATOMIC_SET:                                                                        \
        case ISHMEMX_ATOMIC_SWAP:                                                                       \
            return __atomic_exchange_n(word, value, __ATOMIC_SEQ_CST);                                  \
        case ISHMEMX_ATOMIC_COMPARE_SWAP:                                                               \
            __atomic_compare_exchange_n(word, &cond, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
            return cond; /* now the old value, swapped or not */                                        \
        case ISHMEMX_ATOMIC_ADD:                                                                        \
            return __atomic_fetch_add(word, value, __ATOMIC_SEQ_CST);                                   \
        case ISHMEMX_ATOMIC_AND:                                                                        \
            return __atomic_fetch_and(word, value, __ATOMIC_SEQ_CST);                                   \
        case ISHMEMX_ATOMIC_OR:                                                                         \
            return __atomic_fetch_or(word, value, __ATOMIC_SEQ_CST);                                    \
        default:                                                                                        \
            return __atomic_fetch_xor(word, value, __ATOMIC_SEQ_CST);                                   \
        }                                                                                               \
    }
PYSH_AMO_OF(32)
PYSH_AMO_OF(64)
#undef PYSH_AMO_OF

static inline uint64_t pysh_amo_add_float(uint32_t *word, uint32_t bits) {
    uint32_t old = __atomic_load_n(word, __ATOMIC_RELAXED), sum;
    float a, b;

    memcpy(&b, &bits, sizeof b);
    do {
        memcpy(&a, &old, sizeof a);
        a += b;
        memcpy(&sum, &a, sizeof sum);
    } while (!__atomic_compare_exchange_n(word, &old, sum, true, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
    return old;
}

static inline uint64_t pysh_amo_add_double(uint64_t *word, uint64_t bits) {
    uint64_t old = __atomic_load_n(word, __ATOMIC_RELAXED), sum;
    double a, b;

    memcpy(&b, &bits, sizeof b);
    do {
        memcpy(&a, &old, sizeof a);
        a += b;
        memcpy(&sum, &a, sizeof sum);
    } while (!__atomic_compare_exchange_n(word, &old, sum, true, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
    return old;
}

/* The operation on CPU-visible memory, sequentially consistent; returns the old bits. */
static inline uint64_t pysh_amo_apply(int op, int type, void *address, uint64_t value, uint64_t cond) {
    if (op == ISHMEMX_ATOMIC_ADD && type == ISHMEMX_TYPE_FLOAT)
        return pysh_amo_add_float(address, (uint32_t)value);
    if (op == ISHMEMX_ATOMIC_ADD && type == ISHMEMX_TYPE_DOUBLE)
        return pysh_amo_add_double(address, value);
    if (pysh_type_nbytes(type) == 4)
        return pysh_amo_32(op, address, (uint32_t)value, (uint32_t)cond);
    return pysh_amo_64(op, address, value, cond);
}
