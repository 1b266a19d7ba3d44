# SPDX-License-Identifier: BSD-3-Clause
"""Kernels of ``flash_decode``: parts of the caller's keys, then all parts of all members."""

from typing import NamedTuple

import triton
import triton.language as tl

from ...triton.ll_channels import begin, from_packets, receive, send, to_packets
from ...triton.primitives.backend import INTERPRETED, device_function
from ...triton.runtime.constants import FCOLLECT
from ...triton.teams import place_in

_INTERPRETED = tl.constexpr(INTERPRETED)
_MINUS = tl.constexpr(float("-inf"))


class Split(NamedTuple):
    """Constants of a split: queries of a head of keys, extents as powers of two, keys at a time.

    EACH: every query has a length. QP, ROWS, DP: queries, rows of a tile, elements D of a key.
    """

    GROUP: int
    EACH: bool
    QP: int
    ROWS: int
    D: int
    DP: int
    KEYS: int


@device_function
def _weight(m, largest):
    """What a part counts whose largest score is ``m``; a part without keys counts nothing."""
    return tl.where(m == _MINUS, 0.0, tl.exp2(m - tl.where(largest == _MINUS, 0.0, largest)))


@device_function
def _dot(a, b):
    """In float32; the interpreter multiplies the bits of bfloat16, which are integers to it."""
    if _INTERPRETED:
        return tl.dot(a.to(tl.float32), b.to(tl.float32), input_precision="ieee")
    return tl.dot(a, b, input_precision="ieee")


@device_function
def _attend(query, k, v, first, last, seen, step, wide, scale, KEYS: tl.constexpr):
    """Attention of a tile of queries over the keys from ``first`` to ``last``, ``step`` elements apart.

    ``k`` and ``v`` point to the elements of key 0, of which ``wide`` are there; a row sees its first
    ``seen`` keys. The sum is not divided; with it the largest score, in units of log2, and the sum of
    weights.
    """
    largest = tl.full([query.shape[0]], _MINUS, tl.float32)
    weights = tl.zeros([query.shape[0]], tl.float32)
    total = tl.zeros(query.shape, tl.float32)
    for start in range(first, last, KEYS):
        key = start + tl.arange(0, KEYS)
        at = key[:, None].to(tl.int64) * step
        there = (key[:, None] < last) & wide[None, :]
        found = tl.load(k[None, :] + at, mask=there, other=0)
        score = _dot(query, tl.trans(found)) * scale
        score = tl.where(key[None, :] < seen[:, None], score, _MINUS)
        higher = tl.maximum(largest, tl.max(score, 1))
        fade = _weight(largest, higher)
        p = _weight(score, higher[:, None])
        weights = weights * fade + tl.sum(p, 1)
        value = tl.load(v[None, :] + at, mask=there, other=0)
        total = total * fade[:, None] + _dot(p.to(value.dtype), value)
        largest = higher
    return total, largest, weights


@triton.jit
def decode_parts(
    sums, stats, q, k, v, lengths, keys, heads, queries, splits, scale, SPLIT: tl.constexpr
):  # fmt: skip
    """Attention of all queries that share a head of keys, over one split of the caller's keys.

    ``sums`` are not divided; ``stats`` are the largest score, in units of log2, and the sum of weights.
    A split's keys follow from the sequence's length, so that all splits have work. With EACH the longest
    length is the sequence's.
    """
    GROUP: tl.constexpr = SPLIT.GROUP
    EACH: tl.constexpr = SPLIT.EACH
    QP: tl.constexpr = SPLIT.QP
    ROWS: tl.constexpr = SPLIT.ROWS
    D: tl.constexpr = SPLIT.D
    DP: tl.constexpr = SPLIT.DP
    KEYS: tl.constexpr = SPLIT.KEYS
    batch, head = tl.program_id(0) // heads, tl.program_id(0) % heads
    split = tl.program_id(1)
    if EACH:
        each = tl.arange(0, QP)
        most = tl.load(lengths + batch * queries + each, mask=each < queries, other=0)
        length = tl.maximum(tl.minimum(tl.max(most, 0), keys), 0).to(tl.int32)
    else:
        length = keys
        if lengths is not None:
            length = tl.minimum(tl.load(lengths + batch), keys).to(tl.int32)
    steps = (length + KEYS - 1) // KEYS
    first, last = steps * split // splits * KEYS, steps * (split + 1) // splits * KEYS
    last = tl.minimum(last, length)
    rows, cols = tl.arange(0, ROWS), tl.arange(0, DP)
    inside = rows < GROUP * queries
    seen = last + rows * 0
    if EACH:
        seen = tl.load(lengths + batch * queries + rows // GROUP, mask=inside, other=0)
        seen = tl.minimum(seen, last).to(tl.int32)
    item = (batch * queries + rows // GROUP) * (heads * GROUP) + head * GROUP + rows % GROUP
    wide = inside[:, None] & (cols[None, :] < D)
    query = tl.load(q + item[:, None].to(tl.int64) * D + cols[None, :], mask=wide, other=0)
    shard = batch.to(tl.int64) * keys * heads * D + head * D + cols
    total, largest, weights = _attend(
        query, k + shard, v + shard, first, last, seen, heads * D, cols < D, scale, KEYS
    )
    part = (item * splits + split).to(tl.int64)
    tl.store(sums + part[:, None] * D + cols[None, :], total, mask=wide)
    tl.store(stats + part * 2, largest, mask=inside)
    tl.store(stats + part * 2 + 1, weights, mask=inside)


@triton.jit(do_not_specialize=["keys", "tokens"])
def own_parts(
    sums, stats, q, k, v, bounds, keys, heads, tokens, splits, scale, SPLIT: tl.constexpr
):
    """``decode_parts`` of a token alone, whose keys lie behind each other: k is (batch, heads, keys, D).

    Each of the ``tokens`` of a sequence is a query of its own, so that it does not matter which others
    there are. ``bounds`` has the first of its keys and the one behind the last.
    """
    GROUP: tl.constexpr = SPLIT.GROUP
    ROWS: tl.constexpr = SPLIT.ROWS
    D: tl.constexpr = SPLIT.D
    DP: tl.constexpr = SPLIT.DP
    KEYS: tl.constexpr = SPLIT.KEYS
    token, head, split = tl.program_id(0) // heads, tl.program_id(0) % heads, tl.program_id(1)
    begin = tl.maximum(tl.load(bounds + 2 * token), 0)
    end = tl.minimum(tl.load(bounds + 2 * token + 1), keys)
    steps = (tl.maximum(end - begin, 0) + KEYS - 1) // KEYS
    first = begin + steps * split // splits * KEYS
    last = tl.minimum(begin + steps * (split + 1) // splits * KEYS, end)
    rows, cols = tl.arange(0, ROWS), tl.arange(0, DP)
    item = token * (heads * GROUP) + head * GROUP + rows
    wide = (rows < GROUP)[:, None] & (cols < D)[None, :]
    query = tl.load(q + item[:, None].to(tl.int64) * D + cols[None, :], mask=wide, other=0)
    shard = ((token // tokens).to(tl.int64) * heads + head) * keys * D + cols
    total, largest, weights = _attend(
        query, k + shard, v + shard, first, last, last + rows * 0, D, cols < D, scale, KEYS
    )
    part = (item * splits + split).to(tl.int64)
    tl.store(sums + part[:, None] * D + cols[None, :], total, mask=wide)
    tl.store(stats + part * 2, largest, mask=rows < GROUP)
    tl.store(stats + part * 2 + 1, weights, mask=rows < GROUP)


@device_function
def _own(sums, stats, item, splits, D: tl.constexpr, DP: tl.constexpr, SP: tl.constexpr):
    """The caller's splits of an item as one part: its sum, largest score and sum of weights."""
    lines, cols = tl.arange(0, SP), tl.arange(0, DP)
    part = item.to(tl.int64) * splits + lines
    m = tl.load(stats + part * 2, mask=lines < splits, other=_MINUS)
    counts = tl.load(stats + part * 2 + 1, mask=lines < splits, other=0)
    tile = tl.load(
        sums + part[:, None] * D + cols[None, :],
        mask=(lines[:, None] < splits) & (cols[None, :] < D), other=0,
    )  # fmt: skip
    largest = tl.max(m, 0)
    fade = _weight(m, largest)
    return tl.sum(tile * fade[:, None], 0), largest, tl.sum(counts * fade, 0)


@triton.jit
def merge_parts(
    out, sums, stats, items, splits, words, ctx, TEAM: tl.constexpr, D: tl.constexpr,
    DP: tl.constexpr, SP: tl.constexpr,
):  # fmt: skip
    """Members exchange their parts by flags in the data, and each adds them in PE order."""
    cols, two = tl.arange(0, DP), tl.arange(0, 2)
    for item in range(tl.program_id(0), items, tl.num_programs(0)):
        own, m, count = _own(sums, stats, tl.cast(item, tl.int32), splits, D, DP, SP)
        pair = tl.where(two == 0, m, count)
        number, base, step, row = begin(words, DP + 16, TEAM, FCOLLECT, ctx)
        mine, n_pes = place_in(TEAM, row, ctx)
        for k in range(1, n_pes):
            member = (mine + k) % n_pes
            send(base, step, to_packets(own), number, mine, member, TEAM, row, ctx)
            send(base + DP, step, to_packets(pair), number, mine, member, TEAM, row, ctx)
        largest, weights = tl.sum(two * 0.0, 0) + _MINUS, tl.sum(two * 0.0, 0)
        total = tl.zeros([DP], tl.float32)
        for member in range(n_pes):
            other = mine != member
            got = receive(
                base + DP, step, (two >= 0) & other, number, member, TEAM, row, FCOLLECT, ctx
            )
            stat = from_packets(tl.where(other, got, to_packets(pair)), pair)
            got = receive(base, step, (cols >= 0) & other, number, member, TEAM, row, FCOLLECT, ctx)
            part = from_packets(tl.where(other, got, to_packets(own)), own)
            here = tl.max(tl.where(two == 0, stat, _MINUS), 0)
            there = tl.sum(tl.where(two == 1, stat, 0.0), 0)
            higher = tl.maximum(largest, here)
            old, new = _weight(largest, higher), _weight(here, higher)
            total = total * old + part * new
            weights = weights * old + there * new
            largest = higher
        result = tl.where(weights > 0, total / tl.where(weights > 0, weights, 1.0), 0.0)
        at = out + tl.cast(item, tl.int64) * D + cols
        tl.store(at, result.to(out.dtype.element_ty), mask=cols < D)


@triton.jit
def merge_own(
    out, sums, stats, bounds, heads, splits, D: tl.constexpr, DP: tl.constexpr, SP: tl.constexpr
):  # fmt: skip
    """``merge_parts`` of one PE alone, an item a program. NaN where keys have a gap: the first is -1."""
    item, cols = tl.program_id(0), tl.arange(0, DP)
    total, _, weights = _own(sums, stats, item, splits, D, DP, SP)
    result = tl.where(weights > 0, total / tl.where(weights > 0, weights, 1.0), 0.0)
    result = tl.where(tl.load(bounds + 2 * (item // heads)) < 0, float("nan"), result)
    to = out + item.to(tl.int64) * D + cols
    tl.store(to, result.to(out.dtype.element_ty), mask=cols < D)
