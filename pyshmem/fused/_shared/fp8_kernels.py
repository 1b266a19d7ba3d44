# SPDX-License-Identifier: BSD-3-Clause
"""FP8 e4m3, as the kernels of several operations make it."""

import triton.language as tl

from ...triton.primitives.backend import INTERPRETED, device_function

_INTERPRETED = tl.constexpr(INTERPRETED)
FP8_MAX = tl.constexpr(448.0)  # the largest number of float8_e4m3fn


@device_function
def to_fp8(values):
    """float32 of at most 448 as float8_e4m3fn, to the nearest, ties to even.

    Triton's interpreter loses the carry of a mantissa that is rounded up, so there values are brought to
    those of the format first: multiples of 2**-9, with 3 bits behind the first.
    """
    if _INTERPRETED:
        bits = values.to(tl.uint32, bitcast=True)
        bits = (bits + 0x7FFFF + ((bits >> 20) & 1)) & 0xFFF00000
        tiny = (values + 24576.0) - 24576.0
        values = tl.where(tl.abs(values) < 0.015625, tiny, bits.to(tl.float32, bitcast=True))
    return values.to(tl.float8e4nv)


@device_function
def fp8_bytes(values):
    """The same, as uint8, of any float32: what is larger becomes the largest."""
    cut = tl.minimum(tl.maximum(values, -FP8_MAX), FP8_MAX)
    return to_fp8(cut).to(tl.uint8, bitcast=True)
