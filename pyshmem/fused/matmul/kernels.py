# SPDX-License-Identifier: BSD-3-Clause
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
"""Kernels of the matrix products that communicate: tiles that wait, tiles that go to their owner, sums.

Rows are divided among the members of a team as ``share_of_rows`` has it: member p has ``base`` rows, and
one more where ``p < extra``. No tile has rows of two members. ``pes`` has the members' world numbers.
"""

from typing import Any, NamedTuple

import triton
import triton.language as tl

import pyshmem.triton as shmem

from ...triton.primitives.backend import INTERPRETED
from .._shared.copy_engine import CHUNKS
from .._shared.reduce_kernels import interpreted_product

_INTERPRETED = tl.constexpr(INTERPRETED)
#: Arguments for whose values nothing is compiled anew.
_SAME = ["base", "extra", "me", "n_pes"]


#: Words of a member, one for each chunk of its rows.
_CHUNKS = tl.constexpr(CHUNKS)


class Tile(NamedTuple):
    """Constants of a product: extents of a tile, how many rows of tiles go together, how it is made.

    TRANSPOSED: the weights lie in memory as (N, K). EVEN_K: K is a multiple of BK.
    """

    BM: int
    BN: int
    BK: int
    GROUP: int
    TRANSPOSED: bool
    EVEN_K: bool
    PRECISION: str
    IMPRECISE: int | None


class End(NamedTuple):
    """Constants of what becomes of a sum: scales, a step of 0 is one for all, bias, activation.

    ALL: owners store finished tiles in the results of all.
    """

    SCALED: bool
    X_STEP: int
    W_STEP: int
    BIAS: bool
    ACTIVATION: str
    ALL: bool = False


class Sum(NamedTuple):
    """Constants of a sum of N_PARTS parts, of which OWN lies apart, in blocks of B elements.

    SECOND: it goes to two places.
    """

    N_PARTS: int
    OWN: int
    SECOND: bool
    B: int


class Shards(NamedTuple):
    """Rows to gather: the caller's, and where member p's lie, ``p * slot`` units of 16 bytes behind."""

    own: Any
    gathered: Any
    slot: Any


class ShardScales(NamedTuple):
    """Scales of rows, ``slot`` of them from one member's to the next's, and of columns."""

    scales: Any
    slot: Any
    scale_w: Any


class ShardWords(NamedTuple):
    """A word a member and chunk of ``chunk_rows`` rows, 1 when it is here."""

    arrived: Any
    chunk_rows: Any


class Owned(NamedTuple):
    """What owners have: a slot of ``slot`` elements for each sender, and the results of all."""

    parts: Any
    results: Any
    slot: Any


class Operands(NamedTuple):
    """What is multiplied."""

    x: Any
    w: Any


class Scales(NamedTuple):
    """Of rows of ``x`` and columns of ``w``."""

    scale_x: Any
    scale_w: Any


class TileWords(NamedTuple):
    """A word a member and tile, which one program of the receiver waits for."""

    arrived: Any
    ready: Any


@triton.jit
def activated(value, ACTIVATION: tl.constexpr):
    """``value``, float32, after the activation. NaNs stay."""
    if ACTIVATION == "relu":
        return tl.where(value < 0, 0.0, value)
    if ACTIVATION == "silu":
        return value / (1 + tl.exp(-value))
    if ACTIVATION == "gelu":
        return 0.5 * value * (1 + tl.erf(value * 0.7071067811865476))
    return value


@triton.jit
def finish_kernel(
    dest, second, parts, own, scale_x, scale_w, bias, nelems, N, step, SUM: tl.constexpr,
    END: tl.constexpr,
):  # fmt: skip
    """``dest``, and ``second``, get the sum of the parts in their order, scaled, plus bias, activated.

    All are rows of N elements without gaps; ``step`` elements lie between parts. ``own`` stands for
    part OWN. With one part ``dest`` may be ``parts``.
    """
    SCALED: tl.constexpr = END.SCALED
    X_STEP: tl.constexpr = END.X_STEP
    W_STEP: tl.constexpr = END.W_STEP
    BIAS: tl.constexpr = END.BIAS
    ACTIVATION: tl.constexpr = END.ACTIVATION
    B: tl.constexpr = SUM.B
    N_PARTS: tl.constexpr = SUM.N_PARTS
    OWN: tl.constexpr = SUM.OWN
    SECOND: tl.constexpr = SUM.SECOND
    at = tl.program_id(0).to(tl.int64) * B
    step = tl.cast(step, tl.int64)
    while at < nelems:
        offs = at + tl.arange(0, B)
        inside = offs < nelems
        total = tl.zeros([B], tl.float32)
        for part in tl.static_range(N_PARTS):
            if part == OWN:
                total += tl.load(own + offs, mask=inside).to(tl.float32)
            else:
                total += tl.load(parts + part * step + offs, mask=inside).to(tl.float32)
        column = offs % N
        if SCALED:
            total *= tl.load(scale_x + offs // N * X_STEP, mask=inside)
            total *= tl.load(scale_w + column * W_STEP, mask=inside)
        if BIAS:
            total += tl.load(bias + column, mask=inside).to(tl.float32)
        result = activated(total, ACTIVATION).to(dest.dtype.element_ty)
        tl.store(dest + offs, result, mask=inside)
        if SECOND:
            tl.store(second + offs, result, mask=inside)
        at += tl.num_programs(0).to(tl.int64) * B


# -- tiles -------------------------------------------------------------------------------------------


@triton.jit
def grouped(number, tiles_m, tiles_n, GROUP: tl.constexpr):
    """Row and column of a member's tile: GROUP rows go together, for the L2 cache."""
    first = number // (GROUP * tiles_n) * GROUP
    height = tl.minimum(tiles_m - first, GROUP)
    inner = number % (GROUP * tiles_n)
    return first + inner % height, inner // height


@triton.jit
def product(x, w, row, count, column, N, K, TILE: tl.constexpr):
    """The tile at ``row``, ``column`` of ``x`` (count, K) times ``w`` (K, N), float32.

    Rows and columns past the end are those of the beginning again: their results are not stored.
    """
    BM: tl.constexpr = TILE.BM
    BN: tl.constexpr = TILE.BN
    BK: tl.constexpr = TILE.BK
    TRANSPOSED: tl.constexpr = TILE.TRANSPOSED
    EVEN_K: tl.constexpr = TILE.EVEN_K
    PRECISION: tl.constexpr = TILE.PRECISION
    IMPRECISE: tl.constexpr = TILE.IMPRECISE
    rows, columns = (row + tl.arange(0, BM)) % count, (column + tl.arange(0, BN)) % N
    ks = tl.arange(0, BK)
    left = x + rows.to(tl.int64)[:, None] * K + ks[None, :]
    if TRANSPOSED:
        right = w + ks[:, None] + columns.to(tl.int64)[None, :] * K
    else:
        right = w + ks.to(tl.int64)[:, None] * N + columns[None, :]
    total = tl.zeros([BM, BN], tl.float32)
    for k in range(0, K, BK):
        if EVEN_K:
            a, b = tl.load(left), tl.load(right)
        else:
            a = tl.load(left, mask=ks[None, :] < K - k, other=0.0)
            b = tl.load(right, mask=ks[:, None] < K - k, other=0.0)
        if _INTERPRETED:
            total += interpreted_product(a, b)
        else:
            total = tl.dot(
                a, b, total, input_precision=PRECISION, max_num_imprecise_acc=IMPRECISE
            )  # fmt: skip
        left += BK
        if TRANSPOSED:
            right += BK
        else:
            right += BK * tl.cast(N, tl.int64)
    return total


@triton.jit
def scaled(
    total, scale_x, scale_w, row, count, column, N, TILE: tl.constexpr, END: tl.constexpr
):  # fmt: skip
    """A tile times the scales of its rows and of its columns; a step of 0: one scale for all."""
    BM: tl.constexpr = TILE.BM
    BN: tl.constexpr = TILE.BN
    X_STEP: tl.constexpr = END.X_STEP
    W_STEP: tl.constexpr = END.W_STEP
    rows, columns = (row + tl.arange(0, BM)) % count, (column + tl.arange(0, BN)) % N
    total *= tl.load(scale_x + rows * X_STEP)[:, None]
    return total * tl.load(scale_w + columns * W_STEP)[None, :]


@triton.jit
def finished(
    total, bias, column, N, BIAS: tl.constexpr, ACTIVATION: tl.constexpr, BN: tl.constexpr
):
    """A tile plus the bias of its columns, activated."""
    if BIAS:
        columns = (column + tl.arange(0, BN)) % N
        total += tl.load(bias + columns).to(tl.float32)[None, :]
    return activated(total, ACTIVATION)


@triton.jit
def tile_at(row, count, column, N, BM: tl.constexpr, BN: tl.constexpr):
    """Where a tile's elements are behind its first, and which of them there are."""
    rows, columns = tl.arange(0, BM), tl.arange(0, BN)
    inside = (rows < count - row)[:, None] & (columns < N - column)[None, :]
    return rows[:, None] * N + columns[None, :], inside


@triton.jit(do_not_specialize=["count"])
def product_kernel(
    out, x, w, scale_x, scale_w, bias, count, N, K, TILE: tl.constexpr, END: tl.constexpr
):  # fmt: skip
    """``count`` rows of ``x`` times ``w``, tile by tile as the kernels below multiply them."""
    BM: tl.constexpr = TILE.BM
    BN: tl.constexpr = TILE.BN
    GROUP: tl.constexpr = TILE.GROUP
    SCALED: tl.constexpr = END.SCALED
    BIAS: tl.constexpr = END.BIAS
    ACTIVATION: tl.constexpr = END.ACTIVATION
    tiles_m, tiles_n = tl.cdiv(count, BM), tl.cdiv(N, BN)
    for tile in range(tl.program_id(0), tiles_m * tiles_n, tl.num_programs(0)):
        row, column = grouped(tile, tiles_m, tiles_n, GROUP)
        row, column = row * BM, column * BN
        total = product(x, w, row, count, column, N, K, TILE)
        if SCALED:
            total = scaled(total, scale_x, scale_w, row, count, column, N, TILE, END)
        total = finished(total, bias, column, N, BIAS, ACTIVATION, BN)
        place, inside = tile_at(row, count, column, N, BM, BN)
        to = out + (tl.cast(row, tl.int64) * N + column)
        tl.store(to + place, total.to(out.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=_SAME)
def gather_matmul_kernel(
    out, shards, w, factors, bias, words, base, extra, N, K, me, n_pes, pes, ctx, TILE: tl.constexpr,
    END: tl.constexpr,
):  # fmt: skip
    """Rows of all members times ``w``; those of others when their chunk has arrived, own ones first.

    The caller's own rows lie behind ``gathered`` by as many units of 16 bytes as the addresses differ:
    that they are whole units keeps loads wide.
    """
    BM: tl.constexpr = TILE.BM
    BN: tl.constexpr = TILE.BN
    GROUP: tl.constexpr = TILE.GROUP
    SCALED: tl.constexpr = END.SCALED
    BIAS: tl.constexpr = END.BIAS
    ACTIVATION: tl.constexpr = END.ACTIVATION
    own, gathered, slot = shards
    scales, scale_slot, scale_w = factors
    arrived, chunk_rows = words
    own_distance = (tl.cast(own, tl.int64) - tl.cast(gathered, tl.int64)) // 16
    per_unit: tl.constexpr = 128 // gathered.dtype.element_ty.primitive_bitwidth
    tiles_m, tiles_n = tl.cdiv(base + tl.minimum(extra, 1), BM), tl.cdiv(N, BN)
    for tile in range(tl.program_id(0), n_pes * tiles_m * tiles_n, tl.num_programs(0)):
        row, column = shmem.swizzle_by_pe(tile, n_pes * tiles_m, tiles_n, me, n_pes)
        member = row // tiles_m
        row, column = grouped(row % tiles_m * tiles_n + column, tiles_m, tiles_n, GROUP)
        row, column = row * BM, column * BN
        count = base + (member < extra).to(tl.int32)
        if row < count:
            if member != me:
                word = arrived + member * _CHUNKS + row // chunk_rows
                with shmem.stage("wait for rows", ctx):
                    shmem.signal_wait_until(word, shmem.CMP_EQ, 1, ctx, tl.load(pes + member))
            begin = shmem.stage_begin()
            distance = tl.where(member == me, own_distance, tl.cast(member, tl.int64) * slot)
            total = product(gathered + distance * per_unit, w, row, count, column, N, K, TILE)
            if SCALED:
                total = scaled(
                    total, scales + member * scale_slot, scale_w, row, count, column, N, TILE, END,
                )  # fmt: skip
            total = finished(total, bias, column, N, BIAS, ACTIVATION, BN)
            first = member * base + tl.minimum(member, extra)
            place, inside = tile_at(row, count, column, N, BM, BN)
            to = out + ((first + row).to(tl.int64) * N + column)
            tl.store(to + place, total.to(out.dtype.element_ty), mask=inside)
            shmem.stage_end(begin, "multiply", ctx)


@triton.jit
def sum_of_members(value, parts, slot, place, inside, word, step, me, n_pes, pes, ctx):
    """``value`` and the same tile of the others, which their words tell of, in PE order; float32."""
    total = tl.zeros(value.shape, tl.float32)
    for member in range(n_pes):
        if member == me:
            total += value.to(tl.float32)
        else:
            shmem.signal_wait_until(
                word + member * step, shmem.CMP_EQ, 1, ctx, tl.load(pes + member)
            )
            came = parts + tl.cast(member, tl.int64) * slot
            total += tl.load(came + place, mask=inside, other=0.0).to(tl.float32)
    return total


@triton.jit(do_not_specialize=_SAME)
def matmul_scatter_kernel(
    out, owned, operands, factors, bias, words, base, extra, N, K, me, n_pes, pes, ctx,
    TILE: tl.constexpr,
    END: tl.constexpr,
):  # fmt: skip
    """Tiles of ``x @ w`` go to the owners of their rows, who add them up; the own ones come last.

    With ALL they store the finished tiles in the results of all, from where each copies them.
    """
    BM: tl.constexpr = TILE.BM
    BN: tl.constexpr = TILE.BN
    GROUP: tl.constexpr = TILE.GROUP
    SCALED: tl.constexpr = END.SCALED
    X_STEP: tl.constexpr = END.X_STEP
    BIAS: tl.constexpr = END.BIAS
    ACTIVATION: tl.constexpr = END.ACTIVATION
    ALL: tl.constexpr = END.ALL
    parts, results, slot = owned
    x, w = operands
    scale_x, scale_w = factors
    arrived, ready = words
    tiles_m, tiles_n = tl.cdiv(base + tl.minimum(extra, 1), BM), tl.cdiv(N, BN)
    step = tiles_m * tiles_n
    for tile in range(tl.program_id(0), n_pes * step, tl.num_programs(0)):
        row, column = shmem.swizzle_by_pe_last(tile, n_pes * tiles_m, tiles_n, me, n_pes)
        owner, number = row // tiles_m, row % tiles_m * tiles_n + column
        row, column = grouped(number, tiles_m, tiles_n, GROUP)
        row, column = row * BM, column * BN
        count = base + (owner < extra).to(tl.int32)
        if row < count:
            first = owner * base + tl.minimum(owner, extra)
            begin = shmem.stage_begin()
            total = product(x + first.to(tl.int64) * K, w, row, count, column, N, K, TILE)
            if SCALED:
                total = scaled(
                    total, scale_x + first * X_STEP, scale_w, row, count, column, N, TILE, END,
                )  # fmt: skip
            value = total.to(parts.dtype.element_ty)
            shmem.stage_end(begin, "multiply", ctx)
            place, inside = tile_at(row, count, column, N, BM, BN)
            at = row.to(tl.int64) * N + column
            if owner != me:
                pe = tl.load(pes + owner)
                to = parts + (tl.cast(me, tl.int64) * slot + at)
                with shmem.stage("put tile", ctx):
                    shmem.store(to + place, value, pe, ctx, mask=inside)
                    shmem.signal_op(arrived + me * step + number, 1, shmem.SIGNAL_SET, pe, ctx)
            else:
                begin = shmem.stage_begin()
                total = sum_of_members(
                    value, parts + at, slot, place, inside, arrived + number, step, me, n_pes, pes,
                    ctx,
                )  # fmt: skip
                shmem.stage_end(begin, "wait for tiles, add", ctx)
                total = finished(total, bias, column, N, BIAS, ACTIVATION, BN)
                result = total.to(out.dtype.element_ty)
                if ALL:
                    at += first.to(tl.int64) * N
                    for k in range(1, n_pes):
                        pe = tl.load(pes + (me + k) % n_pes)
                        shmem.store(results + at + place, result, pe, ctx, mask=inside)
                        word = ready + me * step + number
                        shmem.signal_op(word, 1, shmem.SIGNAL_SET, pe, ctx)
                tl.store(out + at + place, result, mask=inside)
    if ALL:
        copy_results(
            out, results, ready, base, extra, N, me, n_pes, pes, ctx, BM, BN, GROUP
        )  # fmt: skip


@triton.jit
def copy_results(
    out, results, ready, base, extra, N, me, n_pes, pes, ctx, BM: tl.constexpr, BN: tl.constexpr,
    GROUP: tl.constexpr,
):  # fmt: skip
    """The finished tiles of the other owners into ``out``, each when its word tells of it."""
    tiles_m, tiles_n = tl.cdiv(base + tl.minimum(extra, 1), BM), tl.cdiv(N, BN)
    step = tiles_m * tiles_n
    for tile in range(tl.program_id(0), (n_pes - 1) * step, tl.num_programs(0)):
        owner, number = (me + 1 + tile // step) % n_pes, tile % step
        row, column = grouped(number, tiles_m, tiles_n, GROUP)
        row, column = row * BM, column * BN
        count = base + (owner < extra).to(tl.int32)
        if row < count:
            word = ready + owner * step + number
            with shmem.stage("wait for results", ctx):
                shmem.signal_wait_until(word, shmem.CMP_EQ, 1, ctx, tl.load(pes + owner))
            first = owner * base + tl.minimum(owner, extra)
            place, inside = tile_at(row, count, column, N, BM, BN)
            at = (first + row).to(tl.int64) * N + column
            tl.store(out + at + place, tl.load(results + at + place, mask=inside), mask=inside)
