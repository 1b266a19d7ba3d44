# SPDX-License-Identifier: BSD-3-Clause
"""Reductions of two tiles at once: one round through a program's shared memory, not two."""

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
