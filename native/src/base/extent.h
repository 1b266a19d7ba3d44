/* SPDX-License-Identifier: BSD-3-Clause
 * How many bytes blocks of elements span, without an overflow that would make many of them few. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The bytes from the first block's first to the last one's last: n blocks of `block` elements of `width` bytes, one
 * every `stride` elements; 0 where there is no element. A single block's stride, of any size, leads nowhere. False:
 * more than PTRDIFF_MAX, which no memory holds; *nbytes_p is not set then. A negative stride, passed as a size_t, is
 * among those where there are two blocks. Whether blocks overlap is not looked at. For elements side by side: 1 block
 * of them. */
static inline bool pysh_extent(size_t n, size_t stride, size_t block, size_t width, size_t *nbytes_p) {
    size_t elements = 0, nbytes;

    if (!n || !block || !width) {
        *nbytes_p = 0;
        return true;
    }
    if ((n > 1 && __builtin_mul_overflow(n - 1, stride, &elements)) ||
        __builtin_add_overflow(elements, block, &elements) || __builtin_mul_overflow(elements, width, &nbytes) ||
        nbytes > PTRDIFF_MAX)
        return false;
    *nbytes_p = nbytes;
    return true;
}
