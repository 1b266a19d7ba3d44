# SPDX-License-Identifier: BSD-3-Clause
"""Tiles of a transformer block's decode step: as tasks of one kernel, or each as a kernel of its own.

Tokens are padded to BM rows. Weights lie as (out, in). A product that is split along its inner extent
leaves float32 parts, which whoever reads them adds up in their order.
"""

import triton
import triton.language as tl

from pyshmem.triton.primitives.backend import prefetch
from pyshmem.triton.collectives import all_reduce

PARTS, GATED = tl.constexpr(2), tl.constexpr(3)
_MINUS = tl.constexpr(float("-inf"))
_LOG2E = tl.constexpr(1.4426950408889634)


@triton.jit
def normalised(row, gain, H: tl.constexpr, EPS: tl.constexpr):
    """RMSNorm of a row, float32."""
    mean = tl.sum(row * row, 0) / H
    return row * (1.0 / tl.sqrt(mean + EPS)) * gain.to(tl.float32)


@triton.jit
def norm(tile, y, x, weight, ctx, H: tl.constexpr, EPS: tl.constexpr):
    """Row ``tile`` of ``x``, normalised."""
    cols = tl.arange(0, H)
    row = tl.load(x + tile * H + cols).to(tl.float32)
    tl.store(
        y + tile * H + cols, normalised(row, tl.load(weight + cols), H, EPS).to(y.dtype.element_ty)
    )


# ---- products --------------------------------------------------------------------------------------


@triton.jit
def weights_times(
    x, w, row, first, K, length, TOKENS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    BK: tl.constexpr,
):  # fmt: skip
    """(BN, BM): rows of ``w`` from ``row`` on times all tokens, over ``length`` inner elements."""
    rows, ks, tokens = row + tl.arange(0, BN), first + tl.arange(0, BK), tl.arange(0, BM)
    left = w + rows.to(tl.int64)[:, None] * K + ks[None, :]
    right = x + tokens[None, :] * K + ks[:, None]
    total = tl.zeros([BN, BM], tl.float32)
    for _ in range(0, length, BK):
        some = tl.load(right, mask=(tokens < TOKENS)[None, :] & (ks >= 0)[:, None], other=0)
        total = tl.dot(tl.load(left), some, total, input_precision="ieee")
        left += BK
        right += BK
    return total


@triton.jit
def product(
    tile, parts, y, squares, x, w, N, K, length, ahead, kind, ctx, TOKENS: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, CHUNKS: tl.constexpr, EPS: tl.constexpr,
):  # fmt: skip
    """A part of ``x @ w.T``, ``length`` of K inner elements; what is made of it is said by ``kind``.

    PARTS: ``parts`` is (K / length, BM, N) float32. GATED: ``silu(gate) * up``, ``y`` is (BM, N), and
    ``w`` has BN / 2 rows of one, then as many of the other; ``x`` is of ``sum_chunk``, and the rows'
    norms come from its squares. Sizes are no constants, so that all products share their code.
    """
    splits = K // length
    row, split, tokens = tile // splits * BN, tile % splits, tl.arange(0, BM)
    some = tl.load(squares + tokens[:, None] * CHUNKS + tl.arange(0, CHUNKS)[None, :])
    total = weights_times(x, w, row, split * length, K, length, TOKENS, BM, BN, BK)
    if kind == GATED:
        norm = 1.0 / tl.sqrt(tl.sum(some, 1) / K + EPS)
        store_gated(y, total, norm, row // 2, N, TOKENS, BM, BN)
    else:
        store_parts(parts, total, row, split, N, TOKENS, BM, BN)


@triton.jit
def store_parts(
    parts, total, row, split, N, TOKENS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr
):
    """BN columns of the part ``split`` from ``row`` on."""
    tokens, columns = tl.arange(0, BM)[None, :], row + tl.arange(0, BN)[:, None]
    inside = (tokens < TOKENS) & (columns >= 0)
    tl.store(parts + (split * BM + tokens) * N + columns, total, mask=inside)


@triton.jit
def store_gated(
    y, total, norm, column, N, TOKENS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr
):
    """BN / 2 columns of ``y`` from ``column`` on; tokens' sums are multiplied by ``norm``."""
    gate, up = tl.split(tl.permute(tl.reshape(total * norm[None, :], [2, BN // 2, BM]), [1, 2, 0]))
    value = gate / (1 + tl.exp(-gate)) * up
    tokens, columns = tl.arange(0, BM)[None, :], column + tl.arange(0, BN // 2)[:, None]
    inside = (tokens < TOKENS) & (columns >= 0)
    tl.store(y + tokens * N + columns, value.to(y.dtype.element_ty), mask=inside)


@triton.jit
def product_ahead(
    tile, parts, y, squares, x, w, N, K, length, ahead, kind, ctx, TOKENS: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, CHUNKS: tl.constexpr, EPS: tl.constexpr,
):  # fmt: skip
    """The first ``ahead`` weights of each of the tile's rows come to the L2 cache; 2 * BK at a time."""
    splits = K // length
    rows, pieces = tile // splits * BN + tl.arange(0, BN), tl.arange(0, 2) * BK
    nbytes: tl.constexpr = BK * (w.dtype.element_ty.primitive_bitwidth // 8)
    places = w + rows.to(tl.int64)[:, None] * K + tile % splits * length + pieces[None, :]
    for step in range(tl.minimum(ahead, length) // (2 * BK)):
        prefetch(places + step * 2 * BK, nbytes)


@triton.jit
def silu_pairs(y, both, N: tl.constexpr, BN: tl.constexpr, B: tl.constexpr):
    """``gated`` of a product that another kernel has made, (tokens, 2 * N)."""
    at = tl.program_id(0) * B + tl.arange(0, B)
    token, column = at // N, at % N
    place = token * 2 * N + column // (BN // 2) * BN + column % (BN // 2)
    gate = tl.load(both + place).to(tl.float32)
    up = tl.load(both + place + BN // 2).to(tl.float32)
    tl.store(y + at, (gate / (1 + tl.exp(-gate)) * up).to(y.dtype.element_ty))


# ---- all-reduce ------------------------------------------------------------------------------------


@triton.jit
def sum_chunk(
    tile, y, squares, total_out, parts, residual, weight, words, ctx, H: tl.constexpr,
    CHUNKS: tl.constexpr, SPLITS: tl.constexpr, BM: tl.constexpr,
):  # fmt: skip
    """One of CHUNKS chunks of a row of all PEs' products, added in PE order, plus the residual.

    In ``y`` it is multiplied by the gain; of its norm the sum of squares is left to whoever reads it.
    """
    row, chunk = tile // CHUNKS, tile % CHUNKS
    cols = chunk * (H // CHUNKS) + tl.arange(0, H // CHUNKS)
    gain = tl.load(weight + cols).to(tl.float32)
    old = tl.load(residual + row * H + cols)
    own = tl.load(parts + row * H + cols)
    for split in tl.static_range(1, SPLITS):
        own += tl.load(parts + (split * BM + row) * H + cols)
    total = all_reduce(own.to(old.dtype), words, ctx)
    new = (total.to(tl.float32) + old.to(tl.float32)).to(old.dtype)
    tl.store(total_out + row * H + cols, new)
    wide = new.to(tl.float32)
    tl.store(y + row * H + cols, (wide * gain).to(y.dtype.element_ty))
    tl.store(squares + tile, tl.sum(wide * wide, 0))


@triton.jit
def norm_chunk(
    tile, y, x, squares, weight, ctx, H: tl.constexpr, CHUNKS: tl.constexpr, EPS: tl.constexpr
):
    """A chunk of a row of ``x``, normalised by the squares of ``sum_chunk``."""
    row, chunk = tile // CHUNKS, tile % CHUNKS
    cols = chunk * (H // CHUNKS) + tl.arange(0, H // CHUNKS)
    mean = tl.sum(tl.load(squares + row * CHUNKS + tl.arange(0, CHUNKS)), 0) / H
    value = tl.load(x + row * H + cols).to(tl.float32) * (1.0 / tl.sqrt(mean + EPS))
    result = value * tl.load(weight + cols).to(tl.float32)
    tl.store(y + row * H + cols, result.to(y.dtype.element_ty))


# ---- attention -------------------------------------------------------------------------------------


@triton.jit
def projected(
    parts, place, BM: tl.constexpr, N: tl.constexpr, SPLITS: tl.constexpr, dtype: tl.constexpr
):
    """Elements of queries, keys or values: the sum of a product's parts, rounded as one would be."""
    total = tl.load(parts + place).to(tl.float32)
    for split in tl.static_range(1, SPLITS):
        total += tl.load(parts + split * BM * N + place).to(tl.float32)
    return total.to(dtype)


@triton.jit
def attend(
    tile, out, sums, stats, counts, parts, keys, values, ctx, OLD: tl.constexpr, ROOM: tl.constexpr,
    KVH: tl.constexpr, GROUP: tl.constexpr, D: tl.constexpr, SPLITS: tl.constexpr, PARTS: tl.constexpr,
    BM: tl.constexpr, KEYS: tl.constexpr, AHEAD: tl.constexpr,
):  # fmt: skip
    """A split of the OLD keys of a token and a head of keys; the last split has the new key, too.

    It appends the new key and value to the cache, (tokens, ROOM, KVH, D). Whoever ends last merges the
    splits: ``counts`` only grow.
    """
    pair, split = tile // SPLITS, tile % SPLITS
    token, head = pair // KVH, pair % KVH
    width: tl.constexpr = (GROUP + 2) * KVH * D
    dtype: tl.constexpr = out.dtype.element_ty
    rows, cols, lines = tl.arange(0, 16), tl.arange(0, D), tl.arange(0, KEYS)
    place = token * width + (head * GROUP + rows % GROUP)[:, None] * D + cols[None, :]
    query = projected(parts, place, BM, width, PARTS, dtype)
    largest = tl.full([16], _MINUS, tl.float32)
    weights = tl.zeros([16], tl.float32)
    total = tl.zeros([16, D], tl.float32)
    scale = _LOG2E / tl.sqrt(tl.cast(D, tl.float32))
    cache = (token * ROOM).to(tl.int64) * KVH * D + head * D
    first = split * (OLD // SPLITS)
    for start in tl.range(first, first + OLD // SPLITS, KEYS, num_stages=3):
        at = cache + (start + lines)[:, None] * (KVH * D) + cols[None, :]
        score = tl.dot(query, tl.trans(tl.load(keys + at)), input_precision="ieee") * scale
        higher = tl.maximum(largest, tl.max(score, 1))
        fade = tl.exp2(largest - higher)
        p = tl.exp2(score - higher[:, None])
        weights = weights * fade + tl.sum(p, 1)
        total = total * fade[:, None] + tl.dot(
            p.to(dtype), tl.load(values + at), input_precision="ieee"
        )
        largest = higher
    if split == SPLITS - 1:
        new = token * width + (GROUP * KVH + head) * D + cols
        key = projected(parts, new, BM, width, PARTS, dtype)
        value = projected(parts, new + KVH * D, BM, width, PARTS, dtype)
        tl.store(keys + cache + OLD * KVH * D + cols, key)
        tl.store(values + cache + OLD * KVH * D + cols, value)
        score = tl.sum(query.to(tl.float32) * key.to(tl.float32)[None, :], 1) * scale
        higher = tl.maximum(largest, score)
        fade, p = tl.exp2(largest - higher), tl.exp2(score - higher)
        weights = weights * fade + p
        total = total * fade[:, None] + p[:, None] * value.to(tl.float32)[None, :]
        largest = higher
    part, real = tile * GROUP + rows, rows < GROUP
    tl.store(
        sums + part[:, None] * D + cols[None, :], total, mask=real[:, None] & (cols >= 0)[None, :]
    )
    tl.store(stats + part * 2, largest, mask=real)
    tl.store(stats + part * 2 + 1, weights, mask=real)
    tl.debug_barrier()
    before = tl.atomic_add(counts + pair, 1, sem="acq_rel", scope="gpu")
    if before % SPLITS == SPLITS - 1:
        merge(out, sums, stats, pair, token, head, KVH, GROUP, D, SPLITS)


@triton.jit
def merge(
    out, sums, stats, pair, token, head, KVH: tl.constexpr, GROUP: tl.constexpr, D: tl.constexpr,
    SPLITS: tl.constexpr,
):  # fmt: skip
    """All splits of a token and a head of keys: its rows of ``out``."""
    rows, cols = tl.arange(0, GROUP), tl.arange(0, D)
    largest = tl.full([GROUP], _MINUS, tl.float32)
    for split in tl.static_range(SPLITS):
        part = (pair * SPLITS + split) * GROUP + rows
        largest = tl.maximum(largest, tl.load(stats + part * 2))
    weights = tl.zeros([GROUP], tl.float32)
    total = tl.zeros([GROUP, D], tl.float32)
    for split in tl.static_range(SPLITS):
        part = (pair * SPLITS + split) * GROUP + rows
        fade = tl.exp2(tl.load(stats + part * 2) - largest)
        weights += fade * tl.load(stats + part * 2 + 1)
        total += fade[:, None] * tl.load(sums + part[:, None] * D + cols[None, :])
    place = (token * KVH * GROUP + head * GROUP + rows)[:, None] * D + cols[None, :]
    tl.store(out + place, (total / weights[:, None]).to(out.dtype.element_ty))


@triton.jit
def attend_ahead(
    tile, out, sums, stats, counts, parts, keys, values, ctx, OLD: tl.constexpr, ROOM: tl.constexpr,
    KVH: tl.constexpr, GROUP: tl.constexpr, D: tl.constexpr, SPLITS: tl.constexpr, PARTS: tl.constexpr,
    BM: tl.constexpr, KEYS: tl.constexpr, AHEAD: tl.constexpr,
):  # fmt: skip
    """The first AHEAD old keys and values of the split, which nobody writes, come to the L2 cache."""
    pair, split = tile // SPLITS, tile % SPLITS
    lines = split * (OLD // SPLITS) + tl.arange(0, AHEAD)
    at = ((pair // KVH * ROOM + lines).to(tl.int64) * KVH + pair % KVH) * D
    nbytes: tl.constexpr = D * (keys.dtype.element_ty.primitive_bitwidth // 8)
    prefetch(keys + at, nbytes)
    prefetch(values + at, nbytes)


# ---- each as a kernel ------------------------------------------------------------------------------


@triton.jit
def attend_kernel(
    out, sums, stats, counts, parts, keys, values, OLD: tl.constexpr, ROOM: tl.constexpr,
    KVH: tl.constexpr, GROUP: tl.constexpr, D: tl.constexpr, SPLITS: tl.constexpr, PARTS: tl.constexpr,
    BM: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    """``attend``, a program a tile."""
    attend(
        tl.program_id(0), out, sums, stats, counts, parts, keys, values, 0, OLD, ROOM, KVH, GROUP, D,
        SPLITS, PARTS, BM, KEYS, 0,
    )  # fmt: skip


@triton.jit
def linear_kernel(
    parts, x, w, N, K, length, TOKENS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    BK: tl.constexpr,
):  # fmt: skip
    """``product`` in parts, a program a tile."""
    splits = K // length
    row, split = tl.program_id(0) // splits * BN, tl.program_id(0) % splits
    total = weights_times(x, w, row, split * length, K, length, TOKENS, BM, BN, BK)
    store_parts(parts, total, row, split, N, TOKENS, BM, BN)


@triton.jit
def gated_kernel(
    y, x, w, N, K, TOKENS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    """``product`` of rows that are normalised, gated, a program a tile."""
    row = tl.program_id(0) * BN
    total = weights_times(x, w, row, 0, K, K, TOKENS, BM, BN, BK)
    store_gated(y, total, tl.full([BM], 1.0, tl.float32), row // 2, N, TOKENS, BM, BN)
