# SPDX-License-Identifier: BSD-3-Clause
"""The kernel beside copy engines: of the tokens that come it takes those that have an expert here.

Rows travel in pieces of ``step`` rows, through a channel: ``full`` has a word for each member and piece,
which its copy engine sets to 1 behind the piece. Each word that will be set is waited for, so that the
stream can clear all of them behind the kernel.
"""

import triton
import triton.language as tl

from ...triton.primitives.backend import device_function, wait
from ...triton.runtime.constants import ALLTOALL, CMP_GE
from ...triton.teams import world_pe
from .dispatch_kernels import call_of, keep_tokens, know_rows, take_rows
from .routing_kernels import await_positions, end_lists, lay_out_pairs


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
    row, me, n_pes, first, number, base = call_of(lists, lists_head, cells, experts, ctx, TEAM)
    few, positions = tl.minimum(tokens, most), counts + 2 * PROGRAMS * EP
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
        know_rows(
            positions, counts, words_out, lists, number, base, cells, ids, tokens, most, first, experts,
            lane, row, me, n_pes, ctx, TEAM, K, KP, PROGRAMS, LISTERS, BLOCK, TB, TN, EP,
        )  # fmt: skip
        _take_pieces(
            out, positions, base, cells, most, block, slot, full, step, pitch, width, lane, TEAM, row,
            me, n_pes, ctx, K, PROGRAMS, TT, TC, PIECES,
        )  # fmt: skip
    end_lists(lists, number)
