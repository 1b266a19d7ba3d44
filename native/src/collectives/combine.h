/* SPDX-License-Identifier: BSD-3-Clause
 * The arithmetic of reductions, on accumulators. */
#pragma once

#include <stddef.h>

/* half and bfloat16 accumulate in float, all others in their own type. */
int pysh_accumulator_type(int type);
/* acc[i] = in[i] and acc[i] = acc[i] op in[i] for i < n; `in` has the type, acc the accumulator's. */
void pysh_combine_begin(int type, void *acc, const void *in, size_t n);
void pysh_combine(int op, int type, void *acc, const void *in, size_t n);
/* Rounds once (to nearest, ties to even), in place, from the accumulator's type to the type. */
void pysh_combine_end(int type, void *acc, size_t n);
