# SPDX-License-Identifier: BSD-3-Clause
"""The kernel of ``all_reduce_rmsnorm`` by stores to peers; constants are those of ``row_kernels``.

Program i of every member has rows i, i + programs, ... It stores its own rows into a ring on each
peer's heap, AHEAD of those that it sums, and sums from its own ring. So a byte crosses once to each
peer, ``x`` may lie anywhere, and links are kept full by stores, for which nobody waits: loads from peers
are as many as programs have registers for, and stop while a row is finished.

The word that says that a row is there is set one turn after the row was stored. A release waits for all
stores before it: these have crossed by then. More AHEAD makes what is left when the links are done
longer, by a row each.

``counts`` are the rows that each program has stored in all calls; ``flags``, for each program and
member, how many rows of that one are there. Row r of a program, counted so, is in slot r % SLOTS. When
it is stored, all peers have said that row r - AHEAD is there: by then they had used the rows before
r - 2 * AHEAD. So SLOTS > 2 * AHEAD need no word back, from call to call, too. Rings hold rows of one
tile size.
"""

# mypy: disable-error-code="assignment"

import triton
import triton.language as tl

from ...triton.primitives.backend import program_barrier, set_words
from ...triton.runtime.constants import ALL_REDUCE
from ...triton.teams import team_row, world_pe
from .pull_kernels import row_of, wait_for_rows
from .row_kernels import finish_row, load_gains, p2p_place, pad_scales

SLOTS = tl.constexpr(8)
AHEAD = tl.constexpr(2)


@triton.jit
def _slot(count, MEMBERS: tl.constexpr, BLOCK: tl.constexpr):
    """Where in a program's ring the rows of that count are: of the member behind the owner first."""
    return (count & (SLOTS - 1)) * ((MEMBERS - 1) * BLOCK)


@triton.jit
def _store_row(row, rings, count, offs, stored, MEMBERS: tl.constexpr):
    for k in tl.static_range(1, MEMBERS):
        place = rings[k - 1] + _slot(count, MEMBERS, offs.numel) + offs
        tl.store(place, row, mask=stored)


@triton.jit
def _say_so(words, count, MEMBERS: tl.constexpr, THREADS: tl.constexpr):
    """All rows before ``count`` are there; the program's threads have met since they stored them.

    Not by the warp that waits for others' words, if there is another.
    """
    indices = tl.arange(0, THREADS)
    for k in tl.static_range(1, MEMBERS):
        here = indices == (THREADS - 32 * k) % THREADS
        set_words(here.to(tl.int32), words[k - 1] + indices * 0, count)


@triton.jit
def _sum(own, rows, mine, MEMBERS: tl.constexpr):
    """Of all members' rows in their order, float32; ``rows`` are from the one behind the caller on."""
    total = tl.zeros([own.numel], tl.float32)
    if MEMBERS == 2:  # both orders give the same
        total = total + own.to(tl.float32) + rows[0].to(tl.float32)
    else:
        for member in tl.static_range(MEMBERS):
            value = own
            for k in tl.static_range(1, MEMBERS):
                here = tl.zeros([own.numel], tl.int32) + (mine + k) % MEMBERS == member
                value = tl.where(here, rows[k - 1], value)
            total += value.to(tl.float32)
    return total


@triton.jit(do_not_specialize=["tokens", "mine"])
def push(
    x, residual, weight, bias, out, residual_out, scales, global_scale, tokens, eps, ring, counts,
    flags, mine, ctx, ROW: tl.constexpr,
):  # fmt: skip
    """Every PE stores its rows to all others and finishes all. ``mine`` is the caller's number."""
    BLOCK: tl.constexpr = ROW.BLOCK
    HIDDEN: tl.constexpr = ROW.HIDDEN
    RESIDUAL: tl.constexpr = ROW.RESIDUAL
    NORM: tl.constexpr = ROW.NORM
    RING: tl.constexpr = ROW.RING
    TEAM: tl.constexpr = RING.TEAM
    MEMBERS: tl.constexpr = RING.MEMBERS
    THREADS: tl.constexpr = RING.THREADS
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
    ring += number.to(tl.int64) * (SLOTS * (MEMBERS - 1) * BLOCK)
    flags += number * MEMBERS
    rings = ()
    words = ()
    for k in tl.static_range(1, MEMBERS):
        pe = world_pe(TEAM, members, (mine + k) % MEMBERS)
        rings += (p2p_place(ring + (MEMBERS - 1 - k) * BLOCK, pe, ctx),)
        words += (p2p_place(flags + mine, pe, ctx),)
    indices = tl.arange(0, THREADS)
    pes = world_pe(TEAM, members, indices, mask=indices < MEMBERS)
    pad_scales(scales, tokens, ROW)
    none = tl.zeros([BLOCK], tl.int32)
    for k in tl.static_range(AHEAD):
        _store_row(first[k], rings, base + k, offs, inside & (none + k < turns), MEMBERS)
        program_barrier()
        if k + 1 < AHEAD:
            _say_so(words, base + tl.minimum(k + 1, turns), MEMBERS, THREADS)
    following = row_of(x, number + AHEAD * step, tokens, offs, inside, HIDDEN)
    turn = turns * 0
    wait_for_rows(flags, base + tl.minimum(1, turns), pes, mine, ctx, MEMBERS, THREADS)
    while turn < turns:
        places = number.to(tl.int64) * HIDDEN + offs
        own = tl.load(x + places, mask=inside, other=0)
        more = own
        if RESIDUAL:
            more = tl.load(residual + places, mask=inside, other=0)
        rows = ()
        for k in tl.static_range(1, MEMBERS):
            place = ring + (k - 1) * BLOCK + _slot(base + turn, MEMBERS, BLOCK) + offs
            rows += (tl.load(place, mask=inside, other=0),)
        # While the loads above are on their way.
        _say_so(words, base + tl.minimum(turn + AHEAD, turns), MEMBERS, THREADS)
        there = inside & (none + turn + AHEAD < turns)
        _store_row(following, rings, base + turn + AHEAD, offs, there, MEMBERS)
        following = row_of(x, number + (AHEAD + 1) * step, tokens, offs, inside, HIDDEN)
        count = base + tl.minimum(turn + 2, turns)
        wait_for_rows(flags, count, pes, mine, ctx, MEMBERS, THREADS)
        # Again for each row, from near by: if they were kept, there were no registers for what comes.
        gain, shift = load_gains(weight, bias, offs, inside, ROW)
        total = _sum(own, rows, mine, MEMBERS)
        if RESIDUAL:
            total += more.to(tl.float32)
        row = total.to(own.dtype)
        tl.store(residual_out + places, row, mask=inside)
        if NORM != "none":
            finish_row(row, number, gain, shift, offs, inside, out, scales, global_scale, eps, ROW)
        number += step
        turn += 1
    program_barrier()
    tl.store(counts + tl.program_id(0), base + turns)
