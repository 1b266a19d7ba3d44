/* SPDX-License-Identifier: BSD-3-Clause
 * Messages of 64 bytes whose words carry a phase each, so that they need no order among themselves: who reads takes a
 * message when all eight words show the phase that it expects. Freestanding. */
#pragma once

#include <stdint.h>

enum { PYSH_SLOT_WORDS = 8, PYSH_MESSAGE_WORDS = 7 };

typedef struct pysh_slot {
    uint64_t word[PYSH_SLOT_WORDS];
} pysh_slot_t;

/* The phase of message t in a ring of 2^log2_n: never 0, so that zeroed slots are empty, and not that of the turn
 * before. */
static inline uint64_t pysh_phase(uint64_t ticket, unsigned log2_n) {
    return (ticket >> log2_n) % 255 + 1;
}

/* Seven words of 64 bits in eight of 56 and a phase: the top bytes of the seven are the last word. */
static inline void pysh_words_pack(const uint64_t *word, uint64_t phase, pysh_slot_t *slot) {
    uint64_t tops = 0;

    for (int i = 0; i < PYSH_MESSAGE_WORDS; i++) {
        tops |= word[i] >> 56 << 8 * i;
        slot->word[i] = (word[i] & 0x00ffffffffffffffULL) | phase << 56;
    }
    slot->word[PYSH_MESSAGE_WORDS] = tops | phase << 56;
}

/* The other way; false when a word is of another phase (`slot` is a copy, its words loaded with acquire). */
static inline int pysh_words_unpack(const pysh_slot_t *slot, uint64_t phase, uint64_t *word) {
    uint64_t tops = slot->word[PYSH_MESSAGE_WORDS], other = tops >> 56 ^ phase;

    for (int i = 0; i < PYSH_MESSAGE_WORDS; i++) {
        other |= slot->word[i] >> 56 ^ phase;
        word[i] = (slot->word[i] & 0x00ffffffffffffffULL) | (tops >> 8 * i & 0xff) << 56;
    }
    return other == 0;
}
