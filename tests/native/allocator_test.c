/* SPDX-License-Identifier: BSD-3-Clause
 * The allocator of the symmetric heaps against a map of its grains; no PE. Built of this file and
 * native/src/memory/allocator.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check_or_exit.h"
#include "memory/allocator.h"

#define FIRST      4096
#define GRAINS     2000
#define END        (FIRST + GRAINS * PYSH_ALLOCATOR_GRAIN)
#define MAX_BLOCKS 400

/* What the test believes: which block a grain belongs to, 0 for none. */
static uint64_t owner[GRAINS];
static pysh_block_t block[MAX_BLOCKS];
static int n_blocks;

static uint64_t random_next(void) {
    static uint64_t state = 88172645463325252ULL;

    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static int64_t grain_of(int64_t offset) {
    return (offset - FIRST) / PYSH_ALLOCATOR_GRAIN;
}

static int64_t grains_in(int64_t nbytes) {
    return (nbytes + PYSH_ALLOCATOR_GRAIN - 1) / PYSH_ALLOCATOR_GRAIN;
}

/* The lowest place that fits, looked for grain by grain. */
static int64_t place_expected(int64_t nbytes, int64_t align) {
    for (int64_t offset = (FIRST + align - 1) & -align; offset + nbytes <= END; offset += align) {
        int64_t grain = grain_of(offset), n = grains_in(nbytes), i = 0;

        while (i < n && grain + i < GRAINS && !owner[grain + i])
            i++;
        if (i == n)
            return offset;
    }
    return PYSH_ALLOCATOR_FULL;
}

static void compare_totals(const pysh_allocator_t *allocator) {
    int64_t used = 0, run = 0, largest = 0;

    for (int64_t grain = 0; grain < GRAINS; grain++) {
        run = owner[grain] ? 0 : run + 1;
        used += owner[grain] != 0;
        largest = run > largest ? run : largest;
    }
    CHECK(allocator->used == used * PYSH_ALLOCATOR_GRAIN);
    CHECK(pysh_allocator_largest(allocator) == largest * PYSH_ALLOCATOR_GRAIN);
    CHECK(allocator->n_live == (size_t)n_blocks);
}

static void take_one(pysh_allocator_t *allocator, uint64_t ordinal) {
    int64_t nbytes = 1 + (int64_t)(random_next() % (random_next() % 8 ? 1000 : 20000));
    int64_t align = PYSH_ALLOCATOR_GRAIN << random_next() % 6;
    int64_t expected = place_expected(nbytes, align), offset;

    if (n_blocks == MAX_BLOCKS)
        return;
    offset = pysh_allocator_take(allocator, nbytes, align, ordinal);
    CHECK(offset == expected);
    if (offset < 0)
        return;
    for (int64_t i = 0; i < grains_in(nbytes); i++)
        owner[grain_of(offset) + i] = ordinal;
    block[n_blocks++] = (pysh_block_t){.offset = offset, .nbytes = nbytes, .ordinal = ordinal};
}

static void give_one(pysh_allocator_t *allocator) {
    pysh_block_t gone;
    const pysh_block_t *found;
    int i;

    if (!n_blocks)
        return;
    i = (int)(random_next() % (uint64_t)n_blocks);
    gone = block[i];
    found = pysh_allocator_find(allocator, gone.offset + gone.nbytes - 1);
    CHECK(found && found->offset == gone.offset && found->nbytes == gone.nbytes && found->ordinal == gone.ordinal);
    CHECK(!pysh_allocator_give(allocator, gone.offset + PYSH_ALLOCATOR_GRAIN / 2));
    CHECK(pysh_allocator_give(allocator, gone.offset));
    CHECK(!pysh_allocator_give(allocator, gone.offset)); /* twice */
    CHECK(!pysh_allocator_find(allocator, gone.offset));
    for (int64_t k = 0; k < grains_in(gone.nbytes); k++)
        owner[grain_of(gone.offset) + k] = 0;
    block[i] = block[--n_blocks];
}

static void resize_one(pysh_allocator_t *allocator) {
    int64_t nbytes = 1 + (int64_t)(random_next() % 3000), grains = grains_in(nbytes), kept, room;
    pysh_block_t *one;

    if (!n_blocks)
        return;
    one = &block[random_next() % (uint64_t)n_blocks];
    kept = grains_in(one->nbytes);
    for (room = kept; grain_of(one->offset) + room < GRAINS && !owner[grain_of(one->offset) + room];)
        room++;
    CHECK(!pysh_allocator_resize(allocator, one->offset + PYSH_ALLOCATOR_GRAIN / 2, nbytes));
    CHECK(pysh_allocator_resize(allocator, one->offset, nbytes) == (grains <= room));
    if (grains > room)
        return;
    one->nbytes = nbytes;
    for (int64_t i = 0; i < kept || i < grains; i++)
        owner[grain_of(one->offset) + i] = i < grains ? one->ordinal : 0;
}

static void test_ranges_are_aligned_by_their_addresses(void) {
    pysh_allocator_t allocator;

    CHECK(pysh_allocator_init(&allocator, FIRST, END));
    allocator.address = (1 << 20) + 3 * PYSH_ALLOCATOR_GRAIN;
    for (int64_t align = PYSH_ALLOCATOR_GRAIN; align <= 1024; align *= 2) {
        int64_t offset = pysh_allocator_take(&allocator, 1, align, 1);
        CHECK(offset >= FIRST && (allocator.address + offset) % align == 0);
    }
    pysh_allocator_destroy(&allocator);
}

static void test_random_calls_match_the_map(void) {
    pysh_allocator_t allocator;

    CHECK(pysh_allocator_init(&allocator, FIRST, END));
    for (uint64_t step = 1; step <= 20000; step++) {
        bool growing = step / 1000 % 2 == 0; /* fill up, then drain, again and again */
        if (random_next() % 8 < (growing ? 6u : 2u))
            take_one(&allocator, step);
        else if (random_next() % 2)
            resize_one(&allocator);
        else
            give_one(&allocator);
        if (step % 16 == 0)
            compare_totals(&allocator);
    }
    while (n_blocks)
        give_one(&allocator);
    compare_totals(&allocator);
    CHECK(allocator.n_holes == 1 && allocator.hole[0].offset == FIRST); /* all coalesced */
    pysh_allocator_destroy(&allocator);
}

static void test_a_full_heap_refuses_and_stays_as_it_is(void) {
    pysh_allocator_t allocator;

    CHECK(pysh_allocator_init(&allocator, FIRST, END));
    CHECK(pysh_allocator_take(&allocator, END - FIRST + 1, PYSH_ALLOCATOR_GRAIN, 1) == PYSH_ALLOCATOR_FULL);
    CHECK(pysh_allocator_take(&allocator, INT64_MAX, PYSH_ALLOCATOR_GRAIN, 1) == PYSH_ALLOCATOR_FULL);
    CHECK(pysh_allocator_take(&allocator, 0, PYSH_ALLOCATOR_GRAIN, 1) == PYSH_ALLOCATOR_FULL);
    CHECK(pysh_allocator_take(&allocator, END - FIRST, PYSH_ALLOCATOR_GRAIN, 1) == FIRST);
    CHECK(pysh_allocator_take(&allocator, 1, PYSH_ALLOCATOR_GRAIN, 2) == PYSH_ALLOCATOR_FULL);
    CHECK(pysh_allocator_largest(&allocator) == 0 && allocator.n_holes == 0);
    CHECK(pysh_allocator_give(&allocator, FIRST));
    CHECK(pysh_allocator_largest(&allocator) == END - FIRST);
    pysh_allocator_destroy(&allocator);
}

static void test_an_empty_range_has_nothing(void) {
    pysh_allocator_t allocator;

    CHECK(pysh_allocator_init(&allocator, FIRST, FIRST));
    CHECK(pysh_allocator_take(&allocator, 1, PYSH_ALLOCATOR_GRAIN, 1) == PYSH_ALLOCATOR_FULL);
    CHECK(!pysh_allocator_find(&allocator, FIRST));
    pysh_allocator_destroy(&allocator);
}

int main(void) {
    test_random_calls_match_the_map();
    test_ranges_are_aligned_by_their_addresses();
    test_a_full_heap_refuses_and_stays_as_it_is();
    test_an_empty_range_has_nothing();
    puts("allocator ok");
    return 0;
}
