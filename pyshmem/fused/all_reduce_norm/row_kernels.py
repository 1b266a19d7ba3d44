# SPDX-License-Identifier: BSD-3-Clause
"""What the kernels of ``all_reduce_rmsnorm`` do with a row, by whatever algorithm its sum came.

A program has a row at a time and is persistent over rows. Sums are in the members' order, in float32,
and rounded once to the dtype of ``x``; ``finish_row`` normalises and quantises what was rounded. A row
is finished by the same instructions on all PEs, or by one PE for all, so that all have the same bits.

What there is not is passed as any other pointer.
"""

from typing import Any, NamedTuple

import triton
import triton.language as tl

from ...triton.primitives.backend import INTERPRETED, state
from ...triton.runtime.constants import DELTA
from .._shared.fp8_kernels import FP8_MAX, fp8_bytes
from .._shared.reduce_kernels import rounded, sum_and_max
from ..formats.block_kernels import load_global_scale, quantise_blocks, scale_places, zero_padding

_INTERPRETED = tl.constexpr(INTERPRETED)
LEAST_SCALE = tl.constexpr(1e-12)  # of a row of zeros


class Blocks(NamedTuple):
    """How elements with block scales are made.

    FORMAT is "mxfp8", "nvfp4" or "", which is FP8 with float32 scales; PER elements are a byte. SWIZZLED
    is the layout of scales, GLOBAL: there is a global scale.
    """

    FORMAT: str = ""
    PER: int = 1
    SWIZZLED: bool = False
    GLOBAL: bool = False


NO_BLOCKS = Blocks()


class Row(NamedTuple):
    """Constants of a launch: HIDDEN elements are a row, in tiles of BLOCK, a power of two.

    NORM is "rms", "layer", or "none" for the sum alone. GROUP elements have a scale; 0 is without.
    RESIDUAL and BIAS: there is one. BLOCKS is how blocks are made, TEAM the number of the team, and
    RING what ``pull`` and ``push`` know of it.
    """

    HIDDEN: int
    BLOCK: int
    NORM: str
    RESIDUAL: bool
    BIAS: bool
    GROUP: int
    BLOCKS: Any = NO_BLOCKS
    TEAM: int = 0
    RING: Any = None


@triton.jit
def p2p_place(pointer, pe, ctx):
    """``pointer`` on the PE ``pe``, a member, in reach: without a check, so without a branch.

    Compilers put loads that were begun before a branch behind it.
    """
    bits: tl.constexpr = pointer.dtype.element_ty.primitive_bitwidth
    return pointer + (state(ctx, DELTA + pe) >> 8) * (2048 // bits)


@triton.jit
def pad_scales(scales, tokens, ROW: tl.constexpr):
    """The program's share of what pads swizzled scales."""
    HIDDEN: tl.constexpr = ROW.HIDDEN
    GROUP: tl.constexpr = ROW.GROUP
    BLOCKS: tl.constexpr = ROW.BLOCKS
    SWIZZLED: tl.constexpr = BLOCKS.SWIZZLED
    if SWIZZLED:
        zero_padding(scales, tokens, (HIDDEN + GROUP - 1) // GROUP, True)


@triton.jit
def load_gains(weight, bias, offs, inside, ROW: tl.constexpr):
    """Weight and bias in float32."""
    NORM: tl.constexpr = ROW.NORM
    BIAS: tl.constexpr = ROW.BIAS
    gain = tl.zeros([offs.numel], tl.float32)
    shift = gain
    if NORM != "none":
        gain = tl.load(weight + offs, mask=inside, other=0).to(tl.float32)
        if BIAS:
            shift = tl.load(bias + offs, mask=inside, other=0).to(tl.float32)
    return gain, shift


@triton.jit
def load_residual(residual, places, inside, RESIDUAL: tl.constexpr):
    if RESIDUAL:
        return tl.load(residual + places, mask=inside, other=0).to(tl.float32)
    else:
        return tl.zeros([places.numel], tl.float32)


@triton.jit
def _centred(row, inside, HIDDEN: tl.constexpr, NORM: tl.constexpr):
    """What is scaled, float32. ``row`` is the sum as it is returned: rounded to its dtype."""
    values = row.to(tl.float32)
    if NORM == "layer":
        mean = tl.sum(values) / HIDDEN
        values = tl.where(inside, values - mean, 0.0)
    return values


@triton.jit
def quantise(values, GROUP: tl.constexpr):
    """FP8 of a float32 tile, as uint8, and the scales of its groups."""
    groups = tl.reshape(values, [values.numel // GROUP, GROUP])
    scales = tl.maximum(tl.max(tl.abs(groups), axis=1) / FP8_MAX, LEAST_SCALE)
    scaled = groups * tl.expand_dims(1.0 / scales, 1)
    return tl.reshape(fp8_bytes(scaled), [values.numel]), scales


@triton.jit
def _store_blocks(
    values, number, offs, out, scales, global_scale, HIDDEN: tl.constexpr, GROUP: tl.constexpr,
    SIDE: tl.constexpr, BLOCKS: tl.constexpr,
):  # fmt: skip
    """Makes blocks of a row's tile and stores them; a thread has SIDE elements side by side."""
    FORMAT: tl.constexpr = BLOCKS.FORMAT
    SWIZZLED: tl.constexpr = BLOCKS.SWIZZLED
    PER: tl.constexpr = BLOCKS.PER
    GLOBAL: tl.constexpr = BLOCKS.GLOBAL
    unit = load_global_scale(global_scale, GLOBAL)
    made, factors = quantise_blocks(values, unit, FORMAT, GLOBAL)
    bytes_of_row: tl.constexpr = HIDDEN // PER
    indices = tl.arange(0, offs.numel // PER)
    places = number.to(tl.int64) * bytes_of_row + indices
    if not _INTERPRETED:
        places = tl.max_contiguous(places, SIDE // PER)
    tl.store(out + places, made, mask=indices < bytes_of_row)
    count: tl.constexpr = (HIDDEN + GROUP - 1) // GROUP
    indices = tl.arange(0, offs.numel // GROUP)
    place = scales + scale_places(number, indices, count, SWIZZLED)
    tl.store(place, factors, mask=indices < count)


@triton.jit
def finish_row(
    row, number, gain, shift, offs, inside, out, scales, global_scale, eps, ROW: tl.constexpr
):  # fmt: skip
    """Normalises, quantises and stores row ``number``.

    Blocks are made of what is stored without them: the normalised row, rounded to its dtype.
    """
    HIDDEN: tl.constexpr = ROW.HIDDEN
    GROUP: tl.constexpr = ROW.GROUP
    NORM: tl.constexpr = ROW.NORM
    BIAS: tl.constexpr = ROW.BIAS
    places = number.to(tl.int64) * HIDDEN + offs
    if GROUP > 0 and not _INTERPRETED:
        # Bytes are stored by the threads that have them: as many side by side as were loaded.
        places = tl.max_contiguous(places, 128 // row.dtype.primitive_bitwidth)
    values = _centred(row, inside, HIDDEN, NORM)
    BLOCKS: tl.constexpr = ROW.BLOCKS
    BLOCK_FORMAT: tl.constexpr = BLOCKS.FORMAT
    if GROUP == offs.numel and not BIAS and BLOCK_FORMAT == "":
        # Squares and the largest in one round through the program: the factor comes out of the maximum.
        unscaled = values * gain
        squares, largest = sum_and_max(values * values, tl.abs(unscaled))
        scale = tl.rsqrt(squares / HIDDEN + eps)
        factor = tl.maximum(largest * scale / FP8_MAX, LEAST_SCALE)
        finished = fp8_bytes(unscaled * (scale / factor))
        tl.store(scales + number, factor)
        tl.store(out + places, finished, mask=inside)
    else:
        values = values * tl.rsqrt(tl.sum(values * values) / HIDDEN + eps) * gain
        if BIAS:
            values += shift
        if BLOCK_FORMAT != "":
            values = rounded(values, row.dtype)
            side: tl.constexpr = 128 // row.dtype.primitive_bitwidth
            _store_blocks(
                values, number, offs, out, scales, global_scale, HIDDEN, GROUP, side, BLOCKS
            )
        elif GROUP > 0:
            finished, factors = quantise(values, GROUP)
            indices = tl.arange(0, offs.numel // GROUP)
            count: tl.constexpr = (HIDDEN + GROUP - 1) // GROUP
            place = scales + number.to(tl.int64) * count + indices
            tl.store(place, factors, mask=indices < count)
            tl.store(out + places, finished, mask=inside)
        else:
            tl.store(out + places, values.to(out.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["tokens"])
def local(
    x, residual, weight, bias, out, residual_out, scales, global_scale, tokens, eps, ROW: tl.constexpr
):  # fmt: skip
    """On one PE, whose sum is what it has."""
    BLOCK: tl.constexpr = ROW.BLOCK
    HIDDEN: tl.constexpr = ROW.HIDDEN
    RESIDUAL: tl.constexpr = ROW.RESIDUAL
    NORM: tl.constexpr = ROW.NORM
    offs = tl.arange(0, BLOCK)
    inside = offs < HIDDEN
    gain, shift = load_gains(weight, bias, offs, inside, ROW)
    number = tl.program_id(0)
    pad_scales(scales, tokens, ROW)
    while number < tokens:
        places = number.to(tl.int64) * HIDDEN + offs
        row = tl.load(x + places, mask=inside, other=0)
        added = row.to(tl.float32) + load_residual(residual, places, inside, RESIDUAL)
        row = added.to(row.dtype)
        tl.store(residual_out + places, row, mask=inside)
        if NORM != "none":
            finish_row(row, number, gain, shift, offs, inside, out, scales, global_scale, eps, ROW)
        number += tl.num_programs(0)
