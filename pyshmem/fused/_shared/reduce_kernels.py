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


@device_function
def bf16_words(low, high):
    """Two float32 rounded to bfloat16, as a word, uint32; on GPUs.

    The compiler rounds values whose halves of a word are used apart one by one, by an instruction that
    takes 8 times as long; so the halves of this are taken by shifts.
    """
    return tl.inline_asm_elementwise(
        "cvt.rn.bf16x2.f32 $0, $2, $1;", "=r,f,f", [low, high], tl.uint32, True, 1
    )


@device_function
def rounded(values, dtype: tl.constexpr):
    """Float32 rounded to a dtype, as float32; see ``bf16_words``."""
    if dtype == tl.bfloat16 and not _INTERPRETED:
        return tl.inline_asm_elementwise(
            "{ .reg .b32 word; cvt.rn.bf16x2.f32 word, $3, $2; shl.b32 $0, word, 16; "
            "and.b32 $1, word, 0xFFFF0000; }",
            "=f,=f,f,f", [values], tl.float32, True, 2,
        )  # fmt: skip
    else:
        return values.to(dtype).to(tl.float32)
