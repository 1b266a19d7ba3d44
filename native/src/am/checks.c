/* SPDX-License-Identifier: BSD-3-Clause
 * What a peer's message says, checked by the owner of the memory before it does any of it. */
#include <stdbool.h>
#include <stdint.h>

#include "am/channel.h"
#include "base/extent.h"
#include "base/state.h"
#include "memory/place.h"

/* A put to PEs of this node: as many of them as it names, and all of them mapped here. */
static bool reaches_all(const uint64_t *word) {
    const uint64_t *places = &word[PYSH_AM_PLACES];
    int heap = pysh_am_heap(word), named = 0, reached = 0;

    for (int i = 0; i < ISHMEMX_MAX_NEAR_PES / 64; i++)
        named += __builtin_popcountll(places[i]);
    for (int pe = pysh_near_begin(); pe < pysh_near_end(); pe++)
        if (pysh_am_names(word, pe))
            reached += pysh_near(pe) && pysh.arena[heap].peer[pe];
    return named == reached;
}

/* What a put or get moves: blocks that a message holds, all of them on the heap. */
static enum pysh_wrong blocks_wrong(const uint64_t *word) {
    size_t block = pysh_am_block(word), n = pysh_am_blocks(word), nbytes;
    int heap = pysh_am_heap(word);
    enum pysh_wrong wrong = pysh_place_wrong(heap, word[PYSH_AM_OFFSET], 0);
    bool by_cpu = !wrong && pysh.arena[heap].cpu_visible;

    if (wrong)
        return wrong;
    if (!block || !n || block * n > pysh_am.data_nbytes) /* the factors have 32 bits */
        return PYSH_WRONG_BLOCKS;
    if (word[PYSH_AM_HEAD] & PYSH_AM_INSIDE && (n != 1 || block > PYSH_AM_SMALL || !by_cpu))
        return PYSH_WRONG_BLOCKS;
    if (n > 1 && (!by_cpu || word[PYSH_AM_HEAD] & (PYSH_AM_SIGNALS | PYSH_AM_SPREADS)))
        return PYSH_WRONG_BLOCKS;
    if (n > 1 && (word[PYSH_AM_STRIDE] < block || word[PYSH_AM_STRIDE] > INT64_MAX))
        return PYSH_WRONG_STRIDE;
    return pysh_extent(n, word[PYSH_AM_STRIDE], block, 1, &nbytes)
               ? pysh_place_wrong(heap, word[PYSH_AM_OFFSET], nbytes)
               : PYSH_WRONG_RANGE;
}

static enum pysh_wrong signal_wrong(const uint64_t *word) {
    pysh_am_amo_t amo = pysh_am_amo_of(word);

    return amo.type != ISHMEMX_TYPE_UINT64 || (amo.op != ISHMEMX_ATOMIC_SET && amo.op != ISHMEMX_ATOMIC_ADD) ||
                   pysh_amo_wrong(amo.op, amo.type, amo.heap, amo.offset)
               ? PYSH_WRONG_SIGNAL
               : PYSH_RIGHT;
}

enum pysh_wrong pysh_am_wrong(const uint64_t *word) {
    uint64_t head = word[PYSH_AM_HEAD], more = head & (PYSH_AM_SIGNALS | PYSH_AM_INSIDE | PYSH_AM_SPREADS);
    pysh_am_amo_t amo = pysh_am_amo_of(word);
    enum pysh_wrong wrong;

    switch (head & PYSH_AM_KINDS) {
    case 0: /* given up by who sent it: it asks for nothing */
        return PYSH_RIGHT;
    case PYSH_AM_AMO:
        return more ? PYSH_WRONG_KIND : pysh_amo_wrong(amo.op, amo.type, amo.heap, amo.offset);
    case PYSH_AM_GET:
        return more & ~(uint64_t)PYSH_AM_INSIDE ? PYSH_WRONG_KIND : blocks_wrong(word);
    case PYSH_AM_PUT:
        if (more & PYSH_AM_SPREADS && more & PYSH_AM_SIGNALS)
            return PYSH_WRONG_KIND;
        if ((wrong = blocks_wrong(word)))
            return wrong;
        if (more & PYSH_AM_SPREADS && !reaches_all(word))
            return PYSH_WRONG_PES;
        return more & PYSH_AM_SIGNALS ? signal_wrong(word) : PYSH_RIGHT;
    default:
        return PYSH_WRONG_KIND;
    }
}
