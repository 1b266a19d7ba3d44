# SPDX-License-Identifier: BSD-3-Clause
"""Reductions of two tiles at once, in one round through shared memory; the interpreter's products."""

import triton
import triton.language as tl

from ...triton.primitives.backend import INTERPRETED, device_function

_INTERPRETED = tl.constexpr(INTERPRETED)


@triton.jit
def _add_and_maximum(a, b, c, d):
    return a + c, tl.maximum(b, d)


@device_function
def sum_and_max(added, compared):
    """The sum of a flat tile, and the largest element of another of its size."""
    if _INTERPRETED:  # whose reductions by functions go through elements one by one
        return tl.sum(added), tl.max(compared)
    else:
        return tl.reduce((added, compared), 0, _add_and_maximum)


@device_function
def interpreted_product(a, b):
    """Of two tiles, float32: each row's bits are the same wherever it stands in ``a``.

    So they are on GPUs. The interpreter's own product is NumPy's, whose library has other instructions
    for the last rows of a tile; and it multiplies the bits of bfloat16, which are integers to it.
    """
    return tl.sum(tl.expand_dims(a.to(tl.float32), 2) * tl.expand_dims(b.to(tl.float32), 0), axis=1)
