/* SPDX-License-Identifier: BSD-3-Clause
 * Reductions, and what scans share with them. */
#pragma once

#include <stddef.h>

#include "ishmemx.h"

/* OK, ARGUMENT for an unknown operation, or TYPE naming the types that it takes. */
int pysh_reduce_check(int op, int type);
/* Of n elements of `width` bytes, cut into slices for so many members, those of number `mine`, to work on for all:
 * *first_p to *last_p - 1. Slices begin at cache lines of the source; none is larger than the first. */
void pysh_slice(size_t members, size_t mine, size_t width, size_t n, size_t *first_p, size_t *last_p);
