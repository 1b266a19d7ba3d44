/* SPDX-License-Identifier: BSD-3-Clause
 * Hands out ranges of offsets. Deterministic: the same calls in the same order give the same offsets,
 * so PEs need not talk to agree on them. It never touches the memory that the offsets mean. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PYSH_ALLOCATOR_GRAIN 64 /* ranges begin and end at multiples of it */

typedef struct pysh_block {
    int64_t offset;   /* first in both structures: they are searched alike */
    int64_t nbytes;   /* as asked for; the range is rounded up to the grain */
    uint64_t ordinal; /* the caller's */
} pysh_block_t;

typedef struct pysh_extent {
    int64_t offset, nbytes;
} pysh_extent_t;

typedef struct pysh_allocator {
    int64_t nbytes, used; /* bytes of the range, of the live blocks with rounding */
    int64_t address;      /* what offset 0 stands for when a range is aligned; init makes it 0 */
    pysh_extent_t *hole;  /* sorted by offset; never two adjacent ones */
    pysh_block_t *live;   /* sorted by offset */
    size_t n_holes, n_live, hole_capacity, live_capacity;
} pysh_allocator_t;

enum { PYSH_ALLOCATOR_FULL = -1, PYSH_ALLOCATOR_NO_METADATA = -2 };

/* Over the offsets [first, end), both multiples of the grain; false: no memory for metadata. */
bool pysh_allocator_init(pysh_allocator_t *allocator, int64_t first, int64_t end);
void pysh_allocator_destroy(pysh_allocator_t *allocator);
/* The lowest range of nbytes >= 1 whose address is a multiple of `align` (a power of two, at least the grain):
 * its offset, or one of the negative numbers above. */
int64_t pysh_allocator_take(pysh_allocator_t *allocator, int64_t nbytes, int64_t align, uint64_t ordinal);
/* False when no live block begins at `offset`. */
bool pysh_allocator_give(pysh_allocator_t *allocator, int64_t offset);
/* Another size for the live block at `offset`, where it is; false: there is no room behind it. */
bool pysh_allocator_resize(pysh_allocator_t *allocator, int64_t offset, int64_t nbytes);
/* The live block whose range contains `offset`, or NULL; valid until the next call. */
const pysh_block_t *pysh_allocator_find(const pysh_allocator_t *allocator, int64_t offset);
int64_t pysh_allocator_largest(const pysh_allocator_t *allocator); /* bytes of the largest hole */
