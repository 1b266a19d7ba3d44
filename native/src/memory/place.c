/* SPDX-License-Identifier: BSD-3-Clause
 * See place.h. */
#include "memory/place.h"

#include <stdbool.h>

#include "base/elements.h"
#include "memory/system_region.h"

static const char *const texts[PYSH_WRONG_COUNT] = {
    [PYSH_RIGHT] = "it failed there",
    [PYSH_WRONG_KIND] = "it is no message that this version knows",
    [PYSH_WRONG_HEAP] = "there is no such heap",
    [PYSH_WRONG_BLOCKS] = "its blocks are empty, or more than a message holds",
    [PYSH_WRONG_STRIDE] = "its blocks overlap, or go backwards",
    [PYSH_WRONG_RANGE] = "it leaves the heap",
    [PYSH_WRONG_ATOMIC] = "there is no such atomic operation on that type",
    [PYSH_WRONG_ALIGNMENT] = "the element is not aligned",
    [PYSH_WRONG_SIGNAL] = "its signal is not set or added to an aligned word of a heap",
    [PYSH_WRONG_SYSTEM] = "it is in the first bytes of a heap, which are the library's own",
    [PYSH_WRONG_PES] = "it is for PEs that are not all of that node",
};

const char *pysh_wrong_text(int wrong) {
    return wrong > 0 && wrong < PYSH_WRONG_COUNT ? texts[wrong] : texts[PYSH_RIGHT];
}

static bool is_between(uint64_t offset, size_t nbytes, int64_t begin, int64_t end) {
    return offset >= (uint64_t)begin && offset + nbytes <= (uint64_t)end;
}

/* In the system region, but not all in what others' kernels write there: words of barrier_all, or the tables. */
static bool is_kept(const pysh_arena_t *arena, uint64_t offset, size_t nbytes) {
    return offset < (uint64_t)arena->system &&
           !(arena->tables_end && is_between(offset, nbytes, PYSH_SYNC_SLOTS, PYSH_SYNC_EPOCH)) &&
           !is_between(offset, nbytes, arena->tables, arena->tables_end);
}

enum pysh_wrong pysh_place_wrong(int heap, uint64_t offset, size_t nbytes) {
    const pysh_arena_t *arena = pysh.arena;
    uint64_t all;

    if (heap < 0 || heap >= PYSH_ARENA_COUNT || !arena[heap].base)
        return PYSH_WRONG_HEAP;
    arena += heap;
    all = pysh_place_bytes(heap);
    if (offset >= all || nbytes > all - offset)
        return PYSH_WRONG_RANGE;
    return nbytes && heap < ISHMEMX_HEAP_COUNT && is_kept(arena, offset, nbytes) ? PYSH_WRONG_SYSTEM : PYSH_RIGHT;
}

enum pysh_wrong pysh_amo_wrong(int op, int type, int heap, uint64_t offset) {
    enum pysh_wrong wrong;

    if (!pysh_amo_takes(op, type))
        return PYSH_WRONG_ATOMIC;
    wrong = pysh_place_wrong(heap, offset, pysh_type_nbytes(type));
    if (wrong)
        return wrong;
    return pysh_type_is_aligned(type, pysh.arena[heap].base + offset) ? PYSH_RIGHT : PYSH_WRONG_ALIGNMENT;
}
