# SPDX-License-Identifier: BSD-3-Clause
"""Kernels about pairs of tokens and experts, where every PE has a share of each expert."""

import triton
import triton.language as tl

from ..moe.wrong_kernels import refuse_experts


@triton.jit
def keys_of_pairs(
    keys, ids, member_of, n_pairs, n_pes, experts, ctx, K: tl.constexpr, B: tl.constexpr
):
    """What pairs are sorted by: the token's member, then the expert; behind all those of no expert.

    An expert that there is not ends the job.
    """
    at = tl.program_id(0) * B + tl.arange(0, B)
    inside = at < n_pairs
    expert = tl.load(ids + at, mask=inside, other=-1)
    refuse_experts((expert < -1) | (expert >= experts), expert, at, ctx, K)
    member = tl.load(member_of + at // K, mask=inside, other=0)
    tl.store(
        keys + at,
        tl.where(expert < 0, n_pes, member) * experts + tl.maximum(expert, 0),
        mask=inside,
    )


@triton.jit
def places_of_pairs(
    rows,
    local,
    pairs,
    order,
    keys,
    firsts,
    n_pairs,
    n_pes,
    experts,
    K: tl.constexpr,
    B: tl.constexpr,
):
    """Of each sorted pair the token's row, among all and its member's; of each pair its place.

    Pairs of no expert stand last: they name row 0, and their place is -1.
    """
    at = tl.program_id(0) * B + tl.arange(0, B)
    inside = at < n_pairs
    pair = tl.load(order + at, mask=inside, other=0)
    member = tl.load(keys + at, mask=inside, other=0) // experts
    there = member < n_pes
    row = tl.where(there, pair // K, 0).to(tl.int32)
    first = tl.load(firsts + member, mask=inside & there, other=0)
    tl.store(rows + at, row, mask=inside)
    tl.store(local + at, row - first, mask=inside)
    tl.store(pairs + pair, tl.where(there, at, -1), mask=inside)


@triton.jit
def sum_of_choices(
    dest, y, pairs, weights, offsets, first, n_rows, n, K: tl.constexpr, B: tl.constexpr,
    BASED: tl.constexpr,
):  # fmt: skip
    """Rows of tokens: their pairs' rows of ``y`` times their weights, float32, in the order of choices.

    ``first`` is the first of the tokens. BASED: ``y`` begins with the pair ``offsets[0]``.
    """
    based = tl.load(offsets) if BASED else 0
    for row in range(tl.program_id(0), n_rows, tl.num_programs(0)):
        token = tl.cast(first + row, tl.int64) * K
        for c0 in range(0, n, B):
            columns = c0 + tl.arange(0, B)
            total = tl.zeros([B], tl.float32)
            for j in tl.static_range(K):
                place = tl.load(pairs + token + j)
                weight = tl.where(place < 0, 0.0, tl.load(weights + token + j))
                at = tl.maximum(place - based, 0).to(tl.int64) * n
                value = tl.load(
                    y + at + columns, mask=columns < tl.where(place >= 0, n, 0), other=0
                )
                total += weight * value.to(tl.float32)
            at = tl.cast(row, tl.int64) * n + columns
            tl.store(dest + at, total.to(dest.dtype.element_ty), mask=columns < n)
