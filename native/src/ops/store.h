/* SPDX-License-Identifier: BSD-3-Clause
 * Storing into another PE's memory. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define PYSH_STORE_BYTES 64 /* the widest vector that a memcpy stores twice */

/* Copies, and stores each of so few bytes once, whole elements at a time. memcpy covers 2, 4, 8, 16, ... bytes by two
 * stores of the same bytes: a PE that waits for the first of them, resets what it waited for and waits again would
 * be released again by the second. Volatile, or the compiler makes a memcpy of it. */
static inline void pysh_store(void *dest, const void *source, size_t nbytes) {
    char *to = dest;
    const char *from = source;

    if (nbytes > PYSH_STORE_BYTES) {
        memcpy(dest, source, nbytes);
        return;
    }
#define PYSH_STORE(_bits)                                                      \
    do {                                                                       \
        typedef uint##_bits##_t word_t __attribute__((aligned(1), may_alias)); \
        *(volatile word_t *)to = *(const word_t *)from;                        \
        to += sizeof(word_t), from += sizeof(word_t);                          \
    } while (0)
    for (size_t words = nbytes / 8; words; words--)
        PYSH_STORE(64);
    if (nbytes & 4)
        PYSH_STORE(32);
    if (nbytes & 2)
        PYSH_STORE(16);
    if (nbytes & 1)
        PYSH_STORE(8);
#undef PYSH_STORE
}
