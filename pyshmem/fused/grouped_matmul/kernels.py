# SPDX-License-Identifier: BSD-3-Clause
"""The kernel of ``group_matmul``: tiles of all experts, dealt out to the programs of one grid."""

from typing import NamedTuple

import triton
import triton.language as tl

from ...triton.primitives.backend import INTERPRETED, device_function
from .._shared.reduce_kernels import interpreted_product

_INTERPRETED = tl.constexpr(INTERPRETED)


class Tile(NamedTuple):
    """Constants of a product: extents of a tile; FP8: rows are bits, BK of which have a scale.

    TURNED: weights lie as (experts, n, k).
    """

    FP8: bool
    TURNED: bool
    BM: int
    BN: int
    BK: int


@device_function
def _dot(a, b, total):
    """In float32."""
    if _INTERPRETED:
        return total + interpreted_product(a, b)
    return tl.dot(a, b, total, input_precision="ieee")


@device_function
def _tile(
    y, x, scales, rows, w, base, lo, hi, e, pm, pn, n, k, TILE: tl.constexpr
):  # fmt: skip
    """Rows ``lo + pm * BM`` on of the result, of expert ``e``, and columns ``pn * BN`` on."""
    FP8: tl.constexpr = TILE.FP8
    TURNED: tl.constexpr = TILE.TURNED
    BM: tl.constexpr = TILE.BM
    BN: tl.constexpr = TILE.BN
    BK: tl.constexpr = TILE.BK
    lines = lo + pm * BM + tl.arange(0, BM)
    if rows is None:
        here = lines.to(tl.int64)
    else:
        here = tl.load(rows + lines, mask=lines < hi, other=0).to(tl.int64)
    columns = pn * BN + tl.arange(0, BN)
    total = tl.zeros([BM, BN], tl.float32)
    for k0 in range(0, k, BK):
        ks = k0 + tl.arange(0, BK)
        a = tl.load(
            x + here[:, None] * k + ks[None, :],
            mask=(lines[:, None] < hi) & (ks[None, :] < k), other=0,
        )  # fmt: skip
        if TURNED:
            place = columns[None, :].to(tl.int64) * k + ks[:, None]
        else:
            place = ks[:, None].to(tl.int64) * n + columns[None, :]
        b = tl.load(
            w + e.to(tl.int64) * k * n + place,
            mask=(ks[:, None] < k) & (columns[None, :] < n),
            other=0,
        )
        if FP8:
            scale = tl.load(scales + here * (k // BK) + k0 // BK, mask=lines < hi, other=0)
            a = (a.to(tl.float8e4nv, bitcast=True).to(tl.float32) * scale[:, None]).to(
                w.dtype.element_ty
            )
        total = _dot(a, b, total)
    at = y + (lines - base)[:, None].to(tl.int64) * n + columns[None, :]
    inside = (lines[:, None] < hi) & (columns[None, :] < n)
    tl.store(at, total.to(y.dtype.element_ty), mask=inside)


@triton.jit
def group_matmul_tiles(
    y, x, scales, rows, offsets, w, experts, n, k, BASED: tl.constexpr, TILE: tl.constexpr
):  # fmt: skip
    """How many tiles an expert has says device memory; each program takes every so-manieth of them all.

    An expert's tiles of one column of weights follow each other, so that they share it in L2. Without
    ``rows`` a pair has its own row of ``x``. BASED: ``y`` begins with the first expert's first pair.
    """
    BM: tl.constexpr = TILE.BM
    BN: tl.constexpr = TILE.BN
    base = tl.load(offsets) if BASED else tl.cast(0, tl.int32)
    tile = tl.program_id(0)
    before = tl.cast(0, tl.int32)
    wide = (n + BN - 1) // BN
    for e in range(experts):
        lo, hi = tl.load(offsets + e), tl.load(offsets + e + 1)
        high = (hi - lo + BM - 1) // BM
        while tile < before + high * wide:
            place = tile - before
            _tile(
                y, x, scales, rows, w, base, lo, hi, tl.cast(e, tl.int32), place % high, place // high,
                n, k, TILE,
            )  # fmt: skip
            tile += tl.num_programs(0)
        before += high * wide


@triton.jit
def group_matmul_weights(
    dw, x, rows, dy, offsets, n, k, BK: tl.constexpr, BN: tl.constexpr, BP: tl.constexpr
):
    """The gradient of an expert's weights, a tile (BK, BN) a program: its tokens' rows times ``dy``."""
    wide, deep = (n + BN - 1) // BN, (k + BK - 1) // BK
    e, place = tl.program_id(0) // (wide * deep), tl.program_id(0) % (wide * deep)
    ks, columns = place // wide * BK + tl.arange(0, BK), place % wide * BN + tl.arange(0, BN)
    lo, hi = tl.load(offsets + e), tl.load(offsets + e + 1)
    total = tl.zeros([BK, BN], tl.float32)
    for first in range(lo, hi, BP):
        lines = first + tl.arange(0, BP)
        if rows is None:
            here = lines.to(tl.int64)
        else:
            here = tl.load(rows + lines, mask=lines < hi, other=0).to(tl.int64)
        a = tl.load(
            x + here[:, None] * k + ks[None, :],
            mask=(lines[:, None] < hi) & (ks[None, :] < k),
            other=0,
        )
        b = tl.load(
            dy + lines[:, None].to(tl.int64) * n + columns[None, :],
            mask=(lines[:, None] < hi) & (columns[None, :] < n), other=0,
        )  # fmt: skip
        total = _dot(tl.trans(a), b, total)
    at = dw + e.to(tl.int64) * k * n + ks[:, None].to(tl.int64) * n + columns[None, :]
    tl.store(at, total.to(dw.dtype.element_ty), mask=(ks[:, None] < k) & (columns[None, :] < n))


@triton.jit
def sums_of_pairs(dest, dy, order, bounds, rows, k, B: tl.constexpr):
    """Each row of tokens gets the sum of its pairs, which are sorted by it: float32, in their order."""
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        lo, hi = tl.load(bounds + row), tl.load(bounds + row + 1)
        for c0 in range(0, k, B):
            columns = c0 + tl.arange(0, B)
            total = tl.zeros([B], tl.float32)
            for place in range(lo, hi):
                pair = tl.load(order + place).to(tl.int64)
                total += tl.load(dy + pair * k + columns, mask=columns < k, other=0).to(tl.float32)
            at = tl.cast(row, tl.int64) * k + columns
            tl.store(dest + at, total.to(dest.dtype.element_ty), mask=columns < k)
