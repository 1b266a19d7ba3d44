# SPDX-License-Identifier: BSD-3-Clause
"""The kernel beside copy engines: of the tokens that come it takes those that have an expert here.

Rows travel in pieces of ``step`` rows, through a link: ``full`` has a word for each member and piece,
which its copy engine sets to 1 behind the piece. Each word that will be set is waited for, so that the
stream can clear all of them behind the kernel.
"""

import triton
import triton.language as tl

from ..triton.chosen import device_function, wait
from ..triton.teams import place_in, team_row, world_pe
from ..triton.words import ALLTOALL, CMP_GE
from .experts_kernels import keep_tokens, know_lists, take_rows
from .experts_lists import (
    await_positions,
    await_rows,
    end_lists,
    lay_out_pairs,
    lay_out_rows,
    lists_of_call,
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
