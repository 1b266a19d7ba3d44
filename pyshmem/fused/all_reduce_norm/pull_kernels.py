# SPDX-License-Identifier: BSD-3-Clause
# mypy: disable-error-code="assignment"
"""The kernel of ``all_reduce_rmsnorm`` by loads from peers; constants are those of ``row_kernels``.

Program i of every member has rows i, i + programs, ... It puts its own rows into a ring on its heap,
AHEAD of those that it sums, says so to the others after every EVERY rows, and loads their rows from
their rings. So a byte crosses once to each peer, nothing is as large as ``x``, and ``x`` may lie
anywhere and be overwritten.

``counts`` are the rows that each program has put into its ring in all calls; ``flags``, for each program
and member, how many rows of that one are there. Row r of a program, counted so, is in slot r % SLOTS.
When it is written, row r - AHEAD of all peers is there: each had used row r - 2 * AHEAD - 1 of its
peers. So SLOTS > 2 * AHEAD need no word back, from call to call, too. Rings hold rows of one tile size.
"""

# mypy: disable-error-code="assignment"

from typing import NamedTuple

import triton
import triton.language as tl

from ...triton.primitives.backend import poll, program_barrier, release_set
from ...triton.runtime.constants import ALL_REDUCE, CMP_GE
from ...triton.teams import team_row, world_pe
from .row_kernels import finish_row, load_gains, load_residual, p2p_place, pad_scales

SLOTS = tl.constexpr(16)


class Ring(NamedTuple):
    """Constants of a launch: the team, how many it has, and threads of a program.

    Of ``pull`` also: after how many rows PEs tell each other, and how many are ahead.
    """

    TEAM: int
    MEMBERS: int
    THREADS: int
    EVERY: int = 1
    AHEAD: int = 1


@triton.jit
def row_of(x, number, tokens, offs, inside, HIDDEN: tl.constexpr):
    """Row ``number``, or zeros behind the last: loads that nothing waits for."""
    places = number.to(tl.int64) * HIDDEN + offs
    there = tl.zeros([offs.numel], tl.int32) + number < tokens
    return tl.load(x + places, mask=inside & there, other=0)


@triton.jit
def _slot(count, BLOCK: tl.constexpr):
    return (count & (SLOTS - 1)) * BLOCK


@triton.jit
def _put(
    row,
    ring,
    offs,
    inside,
    turn,
    turns,
    base,
    words,
    mine,
    MEMBERS: tl.constexpr,
    EVERY: tl.constexpr,
):
    """Puts row ``turn`` of the call's ``turns`` where peers load it, and says so if it is time."""
    if turn < turns:
        tl.store(ring + _slot(base + turn, row.numel) + offs, row, mask=inside)
        if ((turn + 1) % EVERY == 0) | (turn + 1 == turns):
            for member in tl.static_range(MEMBERS):
                if member != mine:
                    release_set(words[member], base + turn + 1)


@triton.jit
def wait_for_rows(
    flags, count, pes, mine, ctx, MEMBERS: tl.constexpr, THREADS: tl.constexpr
):  # fmt: skip
    """Until all members have ``count`` rows in their rings: a thread for each of them looks."""
    indices = tl.arange(0, THREADS)
    active = (indices < MEMBERS) & (indices != mine)
    poll(active.to(tl.int32), flags + indices, CMP_GE, count, pes, ALL_REDUCE, ctx)
    program_barrier()


@triton.jit(do_not_specialize=["tokens", "mine"])
def pull(
    x, residual, weight, bias, out, residual_out, scales, global_scale, tokens, eps, ring, counts,
    flags, mine, ctx, ROW: tl.constexpr,
):  # fmt: skip
    """Every PE loads each row of all others and finishes it. ``mine`` is the caller's number."""
    BLOCK: tl.constexpr = ROW.BLOCK
    HIDDEN: tl.constexpr = ROW.HIDDEN
    RESIDUAL: tl.constexpr = ROW.RESIDUAL
    NORM: tl.constexpr = ROW.NORM
    RING: tl.constexpr = ROW.RING
    AHEAD: tl.constexpr = RING.AHEAD
    TEAM: tl.constexpr = RING.TEAM
    MEMBERS: tl.constexpr = RING.MEMBERS
    THREADS: tl.constexpr = RING.THREADS
    EVERY: tl.constexpr = RING.EVERY
    offs = tl.arange(0, BLOCK)
    inside = offs < HIDDEN
    number = tl.program_id(0)
    step = tl.num_programs(0)
    first = ()
    for k in tl.static_range(AHEAD):
        first += (row_of(x, number + k * step, tokens, offs, inside, HIDDEN),)
    base = tl.load(counts + number, volatile=True)
    turns = (tokens - number + step - 1) // step
    members = team_row(TEAM, ALL_REDUCE, ctx)
    ring += number.to(tl.int64) * (SLOTS * BLOCK)
    flags += number * MEMBERS
    rings = ()
    words = ()
    for member in tl.static_range(MEMBERS):
        pe = world_pe(TEAM, members, member)
        rings += (p2p_place(ring, pe, ctx),)
        words += (p2p_place(flags + mine, pe, ctx),)
    indices = tl.arange(0, THREADS)
    pes = world_pe(TEAM, members, indices, mask=indices < MEMBERS)
    for k in tl.static_range(AHEAD):
        _put(first[k], ring, offs, inside, k, turns, base, words, mine, MEMBERS, EVERY)
    pad_scales(scales, tokens, ROW)
    following = row_of(x, number + AHEAD * step, tokens, offs, inside, HIDDEN)
    turn = turns * 0
    wait_for_rows(flags, base + tl.minimum(turns, EVERY), pes, mine, ctx, MEMBERS, THREADS)
    while turn < turns:
        own = row_of(x, number, tokens, offs, inside, HIDDEN)
        places = number.to(tl.int64) * HIDDEN + offs
        more = load_residual(residual, places, inside, RESIDUAL)
        rows = ()
        for member in tl.static_range(MEMBERS):
            theirs = tl.zeros([BLOCK], tl.int32) + mine != member
            place = rings[member] + _slot(base + turn, BLOCK) + offs
            rows += (tl.load(place, mask=inside & theirs, other=0),)
        # While the loads above are on their way.
        _put(
            following,
            ring,
            offs,
            inside,
            turn + AHEAD,
            turns,
            base,
            words,
            mine,
            MEMBERS,
            EVERY,
        )
        following = row_of(x, number + (AHEAD + 1) * step, tokens, offs, inside, HIDDEN)
        if ((turn + 1) % EVERY == 0) & (turn + 1 < turns):
            count = base + tl.minimum(turn + 1 + EVERY, turns)
            wait_for_rows(flags, count, pes, mine, ctx, MEMBERS, THREADS)
        # Again for each row, from near by: if they were kept, there were no registers for what comes.
        gain, shift = load_gains(weight, bias, offs, inside, ROW)
        total = tl.zeros([BLOCK], tl.float32)
        for member in tl.static_range(MEMBERS):
            theirs = tl.zeros([BLOCK], tl.int32) + mine != member
            total += tl.where(theirs, rows[member], own).to(tl.float32)
        row = (total + more).to(own.dtype)
        tl.store(residual_out + places, row, mask=inside)
        if NORM != "none":
            finish_row(row, number, gain, shift, offs, inside, out, scales, global_scale, eps, ROW)
        number += step
        turn += 1
    program_barrier()
    tl.store(counts + tl.program_id(0), base + turns)
