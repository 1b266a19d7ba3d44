# SPDX-License-Identifier: BSD-3-Clause
"""Kernels beside copy engines: of the tokens or sums that come, they take what is wanted.

Rows travel in pieces of ``step`` rows, through a link: ``full`` has a word for each member and piece,
which its copy engine sets to 1 behind the piece. Each word that will be set is waited for, so that the
stream can clear all of them behind the kernel.
"""

import triton
import triton.language as tl

from ..triton.chosen import device_function, wait
from ..triton.teams import place_in, team_row, world_pe
from ..triton.words import ALLTOALL, CMP_GE
from .experts_combine_kernels import has_pair, weighted
from .experts_kernels import keep_tokens, know_lists, take_rows
from .experts_lists import (
    await_lists,
    await_positions,
    await_rows,
    end_lists,
    goes_to,
    lay_out_pairs,
    lay_out_rows,
    lists_of_call,
    send_lists,
)


@device_function
def _await_piece(full, member, piece, team, row, ctx, PIECES: tl.constexpr):
    """A member's piece is there when it returns."""
    pe = world_pe(team, row, member)
    wait(full + member * PIECES + piece, CMP_GE, 1, pe, ALLTOALL, ctx)


@device_function
def _take_pieces(
    out, positions, base, cells, most, block, slot, full, step, pitch, width, lane, team, row, me, n_pes,
    ctx, K: tl.constexpr, PROGRAMS: tl.constexpr, TT: tl.constexpr, TC: tl.constexpr,
    PIECES: tl.constexpr,
):  # fmt: skip
    """The other members' tokens, to rows that ``positions`` names. ``step`` is a multiple of ``TT``."""
    for k in range(n_pes - 1):
        member = (me + n_pes - 1 - k) % n_pes
        few = tl.minimum(tl.load(base + (member + 1) * cells - 1) // K, most)
        place = block + member.to(tl.int64) * slot
        seen = tl.cast(-1, tl.int32)
        for t0 in range(lane * TT, few, PROGRAMS * TT):
            piece = tl.cast(t0 // step, tl.int32)
            if piece != seen:
                _await_piece(full, member, piece, team, row, ctx, PIECES)
            seen = piece
            t = t0 + tl.arange(0, TT)
            at = tl.load(positions + member * most + t, mask=t < few, other=-1)
            take_rows(out, out, at, at >= 0, place, t.to(tl.int64), pitch, width, False, TC)


@triton.jit(do_not_specialize=["tokens", "most", "step"])
def dispatch_by_engine(
    out, rows_of, pairs, offsets, counts, words_out, x, ids, tokens, most, experts, lists, lists_head,
    cells, block, slot, full, step, pitch, width, ctx, TEAM: tl.constexpr, K: tl.constexpr,
    KP: tl.constexpr, PROGRAMS: tl.constexpr, LISTERS: tl.constexpr, BLOCK: tl.constexpr,
    TB: tl.constexpr, TN: tl.constexpr, EP: tl.constexpr, TR: tl.constexpr, TT: tl.constexpr,
    TC: tl.constexpr, PIECES: tl.constexpr,
):  # fmt: skip
    """Throughput: half of the programs take others' tokens, half lay out pairs and keep the caller's.

    Tokens beyond ``most`` stay: the host is told, and calls again.
    """
    row = team_row(TEAM, ALLTOALL, ctx)
    me, n_pes = place_in(TEAM, row, ctx)
    first, few = (me * experts).to(tl.int32), tl.minimum(tokens, most)
    number, base = lists_of_call(lists, lists_head, cells, n_pes)
    positions = counts + 2 * PROGRAMS * EP
    if tl.program_id(0) < PROGRAMS:
        lane = tl.program_id(0)
        lay_out_pairs(
            rows_of, pairs, offsets, counts, lists, number, base, cells, (n_pes * most).to(tl.int32),
            most, first, experts, lane, ctx, PROGRAMS, PROGRAMS, True, K, KP, TB, EP,
        )  # fmt: skip
        await_positions(lists, number, ctx, PROGRAMS)
        for tile in range(lane, (few + TR - 1) // TR, PROGRAMS):
            keep_tokens(
                out, out, positions, x, ids, few, tile, TR, most, experts, width, me, n_pes, False,
                True, K, TR, TC,
            )  # fmt: skip
    else:
        lane = tl.program_id(0) - PROGRAMS
        know_lists(
            lists, number, base, cells, ids, tokens, most, experts, lane, row, me, n_pes, ctx, TEAM, K,
            PROGRAMS, LISTERS, BLOCK,
        )  # fmt: skip
        lay_out_rows(
            positions, counts, words_out, lists, number, base, cells, n_pes, most, first, experts, lane,
            ctx, PROGRAMS, PROGRAMS, K, KP, TB, TN, EP,
        )  # fmt: skip
        await_rows(lists, number, lane, ctx, PROGRAMS, PROGRAMS)
        _take_pieces(
            out, positions, base, cells, most, block, slot, full, step, pitch, width, lane, TEAM, row,
            me, n_pes, ctx, K, PROGRAMS, TT, TC, PIECES,
        )  # fmt: skip
    end_lists(lists, number)


# ---- expert_combine --------------------------------------------------------------------------------


@triton.jit(do_not_specialize=["tokens", "begin", "end", "member"])
def sum_for_member(
    sums, y, pairs, weights, tokens, begin, end, member, most, lists, lists_head, cells, width, ctx,
    TEAM: tl.constexpr, K: tl.constexpr, PROGRAMS: tl.constexpr, LISTERS: tl.constexpr,
    BLOCK: tl.constexpr, TC: tl.constexpr, FIRST: tl.constexpr,
):  # fmt: skip
    """What the caller's experts made of a member's tokens ``begin`` to ``end``, in rows of ``sums``.

    The ``FIRST`` launch of a call exchanges weights, of which all are here then.
    """
    row = team_row(TEAM, ALLTOALL, ctx)
    me, n_pes = place_in(TEAM, row, ctx)
    number, base = lists_of_call(lists, lists_head, cells, n_pes)
    lane = tl.program_id(0)
    if FIRST:
        if lane >= PROGRAMS:
            send_lists(
                lists, number, base, cells, weights, tokens * K, tokens * K, most * K, 0,
                lane - PROGRAMS, TEAM, row, me, n_pes, ctx, K, PROGRAMS, LISTERS, BLOCK, False,
            )  # fmt: skip
        await_lists(lists, number, most * K, n_pes, ctx, PROGRAMS, LISTERS, BLOCK)
    dtype: tl.constexpr = y.dtype.element_ty
    for at in range(begin + lane, end, 2 * PROGRAMS):
        t = tl.cast(at, tl.int64)
        pair = pairs + (member * most + t) * K
        if has_pair(pair, K):
            for c0 in range(0, width, TC):
                cols = c0 + tl.arange(0, TC)
                weight = base + member * cells + t * K
                total = weighted(y, pair, weight, c0, width, dtype, K, TC)
                tl.store(sums + t * width + cols, total, mask=cols < width)


@device_function
def _came(
    block, slot, ids, t, experts, member, cols, width, dtype: tl.constexpr, K: tl.constexpr
):  # fmt: skip
    """A member's sum for a token; 0 if it has no expert of it."""
    there = cols < tl.where(goes_to(member, ids, t, t + 1, experts, K), width, 0)
    place = block + tl.cast(member, tl.int64) * slot + t.to(tl.int64) * width
    return tl.load(place + cols, mask=there, other=0)


@device_function
def _await_all_of(full, piece, team, row, me, n_pes, ctx, PIECES: tl.constexpr):
    """That piece of all other members."""
    for k in range(n_pes - 1):
        _await_piece(full, (me + n_pes - 1 - k) % n_pes, piece, team, row, ctx, PIECES)


@triton.jit(do_not_specialize=["tokens", "step"])
def add_what_came(
    out, y, pairs, weights, ids, tokens, most, experts, lists, lists_head, cells, block, slot, full,
    step, width, ctx, TEAM: tl.constexpr, K: tl.constexpr, PROGRAMS: tl.constexpr, TC: tl.constexpr,
    PIECES: tl.constexpr, PAIR: tl.constexpr,
):  # fmt: skip
    """The members' sums of each token, added in float32 in PE order; the caller's own is made here."""
    row = team_row(TEAM, ALLTOALL, ctx)
    me, n_pes = place_in(TEAM, row, ctx)
    number, _ = lists_of_call(lists, lists_head, cells, n_pes)
    dtype: tl.constexpr = out.dtype.element_ty
    lane = tl.program_id(0)
    seen = tl.cast(-1, tl.int32)
    for at in range(lane, tokens, 2 * PROGRAMS):
        t = tl.cast(at, tl.int32)
        piece = t // step
        if piece != seen:
            _await_all_of(full, piece, TEAM, row, me, n_pes, ctx, PIECES)
        seen = piece
        for c0 in range(0, width, TC):
            cols = c0 + tl.arange(0, TC)
            if PAIR:  # on its way while the own sum is made
                value = _came(block, slot, ids, t, experts, 1 - me, cols, width, dtype, K)
            own = weighted(
                y,
                pairs + (me * most + t) * K,
                weights + t.to(tl.int64) * K,
                c0,
                width,
                dtype,
                K,
                TC,
            )
            if PAIR:  # the sum of two is the same in both orders
                total = own.to(tl.float32) + value.to(tl.float32) + 0.0
            else:
                total = tl.zeros([TC], tl.float32)
                for member in range(n_pes):
                    some = own
                    if member != me:
                        some = _came(block, slot, ids, t, experts, member, cols, width, dtype, K)
                    total += some.to(tl.float32)
            tl.store(out + t.to(tl.int64) * width + cols, total.to(dtype), mask=cols < width)
    for piece in range(lane, (most + step - 1) // step, 2 * PROGRAMS):
        _await_all_of(full, piece, TEAM, row, me, n_pes, ctx, PIECES)  # beyond the caller's tokens
    end_lists(lists, number)
