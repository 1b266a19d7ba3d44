# SPDX-License-Identifier: BSD-3-Clause
"""The kernel of ``expert_combine``'s derivative: what a token's gradient means for its pairs."""

import triton
import triton.language as tl


@triton.jit
def pairs_of_gradients(dy, dots, gradients, y, rows, weights, last, pairs, width, B: tl.constexpr):
    """Of each pair: the token's gradient times the weight, and its product with the pair's row, float32.

    Pairs from ``last`` on are of no token: 0.
    """
    count = tl.load(last)
    for pair in range(tl.program_id(0), pairs, tl.num_programs(0)):
        there = tl.where(pair < count, width, 0)
        row = tl.load(rows + pair).to(tl.int64)
        weight = tl.load(weights + pair)
        total = tl.zeros([B], tl.float32)
        for c0 in range(0, width, B):
            columns = c0 + tl.arange(0, B)
            gradient = tl.load(gradients + row * width + columns, mask=columns < there, other=0)
            at = tl.cast(pair, tl.int64) * width + columns
            made = tl.load(y + at, mask=columns < there, other=0)
            gradient = gradient.to(tl.float32)
            total += gradient * made.to(tl.float32)
            tl.store(dy + at, (gradient * weight).to(dy.dtype.element_ty), mask=columns < width)
        tl.store(dots + pair, tl.sum(total, 0))
