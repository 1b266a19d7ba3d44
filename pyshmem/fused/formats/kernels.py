# SPDX-License-Identifier: BSD-3-Clause
"""Rows of a tensor as blocks with scales, which is ``formats.quantize``, and back."""

from typing import NamedTuple

import triton
import triton.language as tl

from .block_kernels import (
    block_factors,
    load_global_scale,
    nvfp4_values,
    quantise_blocks,
    scale_places,
    zero_padding,
)


class Blocks(NamedTuple):
    """Constants of a launch.

    HIDDEN elements are a row, COUNT its blocks of GROUP; a tile has TR rows and TC elements of each. PER
    elements are a byte. GLOBAL: there is a global scale.
    """

    FORMAT: str
    HIDDEN: int
    COUNT: int
    GROUP: int
    PER: int
    SWIZZLED: bool
    GLOBAL: bool
    TR: int
    TC: int


@triton.jit(do_not_specialize=["count"])
def quantise_rows(x, out, scales, global_scale, count, BLOCKS: tl.constexpr):
    """A program a tile of rows; ``count`` rows there are."""
    HIDDEN: tl.constexpr = BLOCKS.HIDDEN
    COUNT: tl.constexpr = BLOCKS.COUNT
    GROUP: tl.constexpr = BLOCKS.GROUP
    PER: tl.constexpr = BLOCKS.PER
    FORMAT: tl.constexpr = BLOCKS.FORMAT
    SWIZZLED: tl.constexpr = BLOCKS.SWIZZLED
    GLOBAL: tl.constexpr = BLOCKS.GLOBAL
    TR: tl.constexpr = BLOCKS.TR
    TC: tl.constexpr = BLOCKS.TC
    rows = tl.expand_dims(tl.program_id(0) * TR + tl.arange(0, TR), 1)
    wide = rows.to(tl.int64)
    unit = load_global_scale(global_scale, GLOBAL)
    zero_padding(scales, count, COUNT, SWIZZLED)
    for first in range(0, HIDDEN, TC):
        columns = tl.expand_dims(first + tl.arange(0, TC), 0)
        inside = (rows < count) & (columns < HIDDEN)
        values = tl.load(x + wide * HIDDEN + columns, mask=inside, other=0).to(tl.float32)
        made, factors = quantise_blocks(tl.reshape(values, [TR * TC]), unit, FORMAT, GLOBAL)
        columns = tl.expand_dims(first // PER + tl.arange(0, TC // PER), 0)
        inside = (rows < count) & (columns < HIDDEN // PER)
        made = tl.reshape(made, [TR, TC // PER])
        tl.store(out + wide * (HIDDEN // PER) + columns, made, mask=inside)
        columns = tl.expand_dims(first // GROUP + tl.arange(0, TC // GROUP), 0)
        inside = (rows < count) & (columns < COUNT)
        place = scales + scale_places(rows, columns, COUNT, SWIZZLED)
        tl.store(place, tl.reshape(factors, [TR, TC // GROUP]), mask=inside)


@triton.jit(do_not_specialize=["count"])
def dequantise_rows(out, x, scales, count, BLOCKS: tl.constexpr):
    """A program a tile of rows and columns: elements times the scales of their blocks."""
    HIDDEN: tl.constexpr = BLOCKS.HIDDEN
    COUNT: tl.constexpr = BLOCKS.COUNT
    GROUP: tl.constexpr = BLOCKS.GROUP
    PER: tl.constexpr = BLOCKS.PER
    FORMAT: tl.constexpr = BLOCKS.FORMAT
    SWIZZLED: tl.constexpr = BLOCKS.SWIZZLED
    TR: tl.constexpr = BLOCKS.TR
    TC: tl.constexpr = BLOCKS.TC
    rows = tl.expand_dims(tl.program_id(0) * TR + tl.arange(0, TR), 1)
    wide, first = rows.to(tl.int64), tl.program_id(1) * TC
    columns = tl.expand_dims(first // PER + tl.arange(0, TC // PER), 0)
    inside = (rows < count) & (columns < HIDDEN // PER)
    data = tl.load(x + wide * (HIDDEN // PER) + columns, mask=inside, other=0)
    place = scale_places(rows, columns // (GROUP // PER), COUNT, SWIZZLED)
    factors = block_factors(tl.load(scales + place, mask=inside, other=0), FORMAT)
    if FORMAT == "mxfp8":
        values = data.to(tl.float8e4nv, bitcast=True).to(tl.float32) * factors
    else:
        low, high = nvfp4_values(data & 15) * factors, nvfp4_values(data >> 4) * factors
        values = tl.reshape(tl.join(low, high), [TR, TC])
    columns = tl.expand_dims(first + tl.arange(0, TC), 0)
    inside = (rows < count) & (columns < HIDDEN)
    tl.store(out + wide * HIDDEN + columns, values.to(out.dtype.element_ty), mask=inside)
