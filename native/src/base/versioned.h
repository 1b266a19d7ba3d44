/* SPDX-License-Identifier: BSD-3-Clause
 * Words that one thread at a time changes and others copy, those of other processes too: `version` is odd during a
 * change, and who copies looks whether it was even and is still the same. Neither waits. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define PYSH_COPY_ATTEMPTS 1000 /* at what changes meanwhile */

/* The changes come behind the odd version: the fence pairs with that of pysh_copy_is_whole(). */
static inline uint64_t pysh_change_begin(_Atomic uint64_t *version) {
    uint64_t begun = atomic_load_explicit(version, memory_order_relaxed);

    atomic_store_explicit(version, begun + 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    return begun;
}

/* The release pairs with the acquire of pysh_copy_begin(). */
static inline void pysh_change_end(_Atomic uint64_t *version, uint64_t begun) {
    atomic_store_explicit(version, begun + 2, memory_order_release);
}

static inline uint64_t pysh_copy_begin(const _Atomic uint64_t *version) {
    return atomic_load_explicit(version, memory_order_acquire);
}

/* Is what was copied since then of one change? */
static inline bool pysh_copy_is_whole(const _Atomic uint64_t *version, uint64_t begun) {
    atomic_thread_fence(memory_order_acquire);
    return begun % 2 == 0 && atomic_load_explicit(version, memory_order_relaxed) == begun;
}

static inline void pysh_words_store(_Atomic uint64_t *words, const void *from, int n) {
    uint64_t word;

    for (int i = 0; i < n; i++) {
        memcpy(&word, (const char *)from + 8 * i, sizeof word);
        atomic_store_explicit(&words[i], word, memory_order_relaxed);
    }
}

static inline void pysh_words_load(const _Atomic uint64_t *words, void *into, int n) {
    uint64_t word;

    for (int i = 0; i < n; i++) {
        word = atomic_load_explicit(&words[i], memory_order_relaxed);
        memcpy((char *)into + 8 * i, &word, sizeof word);
    }
}
