/* SPDX-License-Identifier: BSD-3-Clause
 * First fit over two sorted arrays: holes and live blocks. */
#include "memory/allocator.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define MIN_CAPACITY 64

static int64_t round_up(int64_t value, int64_t unit) {
    return (value + unit - 1) & -unit;
}

/* Room for `more` elements; false when there is no memory. */
static bool reserve(void **array, size_t *capacity, size_t n, size_t more, size_t element) {
    size_t wanted = *capacity ? *capacity : MIN_CAPACITY;
    void *grown;

    if (n + more <= *capacity)
        return true;
    while (wanted < n + more)
        wanted *= 2;
    grown = realloc(*array, wanted * element);
    if (!grown)
        return false;
    *array = grown;
    *capacity = wanted;
    return true;
}

bool pysh_allocator_init(pysh_allocator_t *allocator, int64_t first, int64_t end) {
    *allocator = (pysh_allocator_t){.nbytes = end - first};
    if (!reserve((void **)&allocator->hole, &allocator->hole_capacity, 0, 1, sizeof *allocator->hole))
        return false;
    if (end > first)
        allocator->hole[allocator->n_holes++] = (pysh_extent_t){first, end - first};
    return true;
}

void pysh_allocator_destroy(pysh_allocator_t *allocator) {
    free(allocator->hole);
    free(allocator->live);
    *allocator = (pysh_allocator_t){0};
}

/* Index of the first of `n` elements of `stride` bytes, each beginning with its offset, above `offset`. */
static size_t first_above(const void *array, size_t n, size_t stride, int64_t offset) {
    size_t low = 0, high = n;

    while (low < high) {
        size_t middle = (low + high) / 2;
        if (*(const int64_t *)((const char *)array + middle * stride) <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static size_t live_above(const pysh_allocator_t *allocator, int64_t offset) {
    return first_above(allocator->live, allocator->n_live, sizeof *allocator->live, offset);
}

static void hole_insert(pysh_allocator_t *allocator, size_t i, pysh_extent_t hole) {
    memmove(allocator->hole + i + 1, allocator->hole + i, (allocator->n_holes - i) * sizeof hole);
    allocator->hole[i] = hole;
    allocator->n_holes++;
}

static void hole_remove(pysh_allocator_t *allocator, size_t i) {
    allocator->n_holes--;
    memmove(allocator->hole + i, allocator->hole + i + 1, (allocator->n_holes - i) * sizeof *allocator->hole);
}

/* Cuts [offset, offset + nbytes) out of hole i; what stays before and behind it remains a hole. */
static void hole_cut(pysh_allocator_t *allocator, size_t i, int64_t offset, int64_t nbytes) {
    pysh_extent_t *hole = &allocator->hole[i];
    int64_t head = offset - hole->offset, tail = hole->nbytes - head - nbytes;

    if (head && tail) {
        hole->nbytes = head;
        hole_insert(allocator, i + 1, (pysh_extent_t){offset + nbytes, tail});
    } else if (head) {
        hole->nbytes = head;
    } else if (tail) {
        *hole = (pysh_extent_t){offset + nbytes, tail};
    } else {
        hole_remove(allocator, i);
    }
}

int64_t pysh_allocator_take(pysh_allocator_t *allocator, int64_t nbytes, int64_t align, uint64_t ordinal) {
    int64_t range;

    if (nbytes < 1 || nbytes > allocator->nbytes)
        return PYSH_ALLOCATOR_FULL;
    range = round_up(nbytes, PYSH_ALLOCATOR_GRAIN);
    /* Live blocks separate the holes, so there is at most one hole more: with this room a give, which
     * must not fail, never has to grow. */
    if (!reserve((void **)&allocator->live, &allocator->live_capacity, allocator->n_live, 1, sizeof *allocator->live) ||
        !reserve((void **)&allocator->hole, &allocator->hole_capacity, 0, allocator->n_live + 2,
                 sizeof *allocator->hole))
        return PYSH_ALLOCATOR_NO_METADATA;
    for (size_t i = 0; i < allocator->n_holes; i++) {
        int64_t end = allocator->hole[i].offset + allocator->hole[i].nbytes;
        int64_t offset = round_up(allocator->address + allocator->hole[i].offset, align) - allocator->address;
        size_t at;

        if (offset > end || end - offset < range)
            continue;
        hole_cut(allocator, i, offset, range);
        at = live_above(allocator, offset);
        memmove(allocator->live + at + 1, allocator->live + at, (allocator->n_live - at) * sizeof *allocator->live);
        allocator->live[at] = (pysh_block_t){offset, nbytes, ordinal};
        allocator->n_live++;
        allocator->used += range;
        return offset;
    }
    return PYSH_ALLOCATOR_FULL;
}

static void hole_add(pysh_allocator_t *allocator, int64_t offset, int64_t nbytes) {
    size_t i = first_above(allocator->hole, allocator->n_holes, sizeof *allocator->hole, offset);
    pysh_extent_t *before = i > 0 ? &allocator->hole[i - 1] : NULL;
    pysh_extent_t *behind = i < allocator->n_holes ? &allocator->hole[i] : NULL;
    bool joins_before = before && before->offset + before->nbytes == offset;
    bool joins_behind = behind && offset + nbytes == behind->offset;

    if (joins_before && joins_behind) {
        before->nbytes += nbytes + behind->nbytes;
        hole_remove(allocator, i);
    } else if (joins_before) {
        before->nbytes += nbytes;
    } else if (joins_behind) {
        behind->offset = offset;
        behind->nbytes += nbytes;
    } else {
        hole_insert(allocator, i, (pysh_extent_t){offset, nbytes});
    }
}

bool pysh_allocator_give(pysh_allocator_t *allocator, int64_t offset) {
    size_t above = live_above(allocator, offset);
    int64_t range;

    if (above == 0 || allocator->live[above - 1].offset != offset)
        return false;
    range = round_up(allocator->live[above - 1].nbytes, PYSH_ALLOCATOR_GRAIN);
    memmove(allocator->live + above - 1, allocator->live + above,
            (allocator->n_live - above) * sizeof *allocator->live);
    allocator->n_live--;
    allocator->used -= range;
    hole_add(allocator, offset, range);
    return true;
}

bool pysh_allocator_resize(pysh_allocator_t *allocator, int64_t offset, int64_t nbytes) {
    size_t above = live_above(allocator, offset);
    size_t i = first_above(allocator->hole, allocator->n_holes, sizeof *allocator->hole, offset);
    pysh_block_t *block = above ? &allocator->live[above - 1] : NULL;
    int64_t range, wanted;

    if (!block || block->offset != offset || nbytes < 1 || nbytes > allocator->nbytes)
        return false;
    range = round_up(block->nbytes, PYSH_ALLOCATOR_GRAIN);
    wanted = round_up(nbytes, PYSH_ALLOCATOR_GRAIN);
    if (wanted > range) {
        const pysh_extent_t *behind = &allocator->hole[i];
        if (i == allocator->n_holes || behind->offset != offset + range || behind->nbytes < wanted - range)
            return false;
        hole_cut(allocator, i, offset + range, wanted - range);
    } else if (wanted < range) {
        hole_add(allocator, offset + wanted, range - wanted);
    }
    block->nbytes = nbytes;
    allocator->used += wanted - range;
    return true;
}

const pysh_block_t *pysh_allocator_find(const pysh_allocator_t *allocator, int64_t offset) {
    size_t above = live_above(allocator, offset);
    const pysh_block_t *block;

    if (above == 0)
        return NULL;
    block = &allocator->live[above - 1];
    return offset - block->offset < round_up(block->nbytes, PYSH_ALLOCATOR_GRAIN) ? block : NULL;
}

int64_t pysh_allocator_largest(const pysh_allocator_t *allocator) {
    int64_t largest = 0;

    for (size_t i = 0; i < allocator->n_holes; i++)
        if (allocator->hole[i].nbytes > largest)
            largest = allocator->hole[i].nbytes;
    return largest;
}
