# SPDX-License-Identifier: BSD-3-Clause
"""The kernel beside copy engines: of the tokens that come it takes those that have an expert here.

Rows move in chunks of ``step`` rows, through a channel: ``full`` has a word for each member and chunk,
which its copy engine sets to 1 behind the chunk. Each word that will be set is waited for, so that the
stream can clear all of them behind the kernel.
"""

from typing import Any, NamedTuple

import triton
import triton.language as tl

from ...triton.primitives.backend import device_function, wait
from ...triton.runtime.constants import ALLTOALL, CMP_GE
from ...triton.teams import world_pe
from .._shared.copy_engine import CHUNKS
from .dispatch_kernels import Dest, call_of, keep_tokens, know_rows, take_rows
from .routing_kernels import await_positions, end_routing, lay_out_pairs

_CHUNKS = tl.constexpr(CHUNKS)


class Arrivals(NamedTuple):
    """Where the others' tokens come: ``slot`` elements from member to member; words of chunks."""

    block: Any
    slot: Any
    full: Any


@device_function
def _await_chunk(full, member, chunk, row, ctx, TEAM: tl.constexpr):
    """A member's chunk is there when it returns."""
    pe = world_pe(TEAM, row, member)
    wait(full + member * _CHUNKS + chunk, CMP_GE, 1, pe, ALLTOALL, ctx)


@device_function
def _take_chunks(
    to, positions, routing, most, arrivals, step, pitch, width, program, members, ctx,
    CALL: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """The other members' tokens, to rows that ``positions`` names. ``step`` is a multiple of ``TT``."""
    TEAM: tl.constexpr = CALL.TEAM
    K: tl.constexpr = CALL.K
    PROGRAMS: tl.constexpr = CALL.PROGRAMS
    TT: tl.constexpr = TILE.TT
    row, me, n_pes = members
    for k in range(n_pes - 1):
        member = (me + n_pes - 1 - k) % n_pes
        last = routing.base + (member + 1) * routing.cells - 1
        few = tl.minimum(tl.load(last) // K, most)
        place = arrivals.block + member.to(tl.int64) * arrivals.slot
        seen = tl.cast(-1, tl.int32)
        for t0 in range(program * TT, few, PROGRAMS * TT):
            chunk = tl.cast(t0 // step, tl.int32)
            if chunk != seen:
                _await_chunk(arrivals.full, member, chunk, row, ctx, TEAM)
            seen = chunk
            t = t0 + tl.arange(0, TT)
            at = tl.load(positions + member * most + t, mask=t < few, other=-1)
            take_rows(to, at, at >= 0, place, t.to(tl.int64), pitch, width, TILE)


@triton.jit(do_not_specialize=["tokens", "most", "step"])
def dispatch_by_engine(
    out, made, words_out, given, tokens, most, experts, table, arrivals, step, pitch, width, ctx,
    CALL: tl.constexpr, TILE: tl.constexpr, LAYOUT: tl.constexpr,
):  # fmt: skip
    """Throughput: half of the programs take others' tokens, half lay out pairs and keep the caller's.

    Tokens beyond ``most`` stay: the host is told, and calls again. They are not made FP8 here.
    """
    TEAM: tl.constexpr = CALL.TEAM
    K: tl.constexpr = CALL.K
    PROGRAMS: tl.constexpr = CALL.PROGRAMS
    TR: tl.constexpr = TILE.TR
    EP: tl.constexpr = LAYOUT.EP
    members, first, routing = call_of(table, experts, ctx, TEAM)
    me, n_pes = members.me, members.n_pes
    few, positions = tl.minimum(tokens, most), made.counts + 2 * PROGRAMS * EP
    to = Dest(out, out)
    if tl.program_id(0) < PROGRAMS:
        program = tl.program_id(0)
        lay_out_pairs(
            made, routing, (n_pes * most).to(tl.int32), most, first, experts, program, ctx, PROGRAMS,
            True, CALL, LAYOUT,
        )  # fmt: skip
        await_positions(routing, ctx, PROGRAMS)
        for tile in range(program, (few + TR - 1) // TR, PROGRAMS):
            keep_tokens(
                to, positions, given, few, tile, TR, most, experts, width, me, True, K, TILE
            )
    else:
        program = tl.program_id(0) - PROGRAMS
        know_rows(
            positions, made.counts, words_out, routing, given.ids, tokens, most, first, experts, program,
            members, ctx, CALL, LAYOUT,
        )  # fmt: skip
        _take_chunks(
            to, positions, routing, most, arrivals, step, pitch, width, program, members, ctx, CALL,
            TILE,
        )  # fmt: skip
    end_routing(routing)
