/* SPDX-License-Identifier: BSD-3-Clause
 * Reductions, and what scans share with them. */
#pragma once

#include <stddef.h>

#include "ishmemx.h"

/* OK, ARGUMENT for an unknown operation, or TYPE naming the types that it takes. */
int pysh_reduce_check(int op, int type);
/* Of n elements of `width` bytes, those that this member works on for all: *first_p to *last_p - 1. Slices begin at
 * cache lines of the source. */
void pysh_slice(ishmemx_team_t team, size_t width, size_t n, size_t *first_p, size_t *last_p);
