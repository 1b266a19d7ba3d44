# SPDX-License-Identifier: BSD-3-Clause
# mypy: disable-error-code="assignment"
"""The kernel of ``all_reduce_rmsnorm`` by loads from peers; constants are those of ``norm_kernels``.

Program i of every member has rows i, i + programs, ... It puts its own row into a ring on its heap, says
so to the others, and loads their rows from their rings, one row ahead of what it sums. So a byte crosses
once to each peer, nothing is as large as ``x``, and ``x`` may lie anywhere and be overwritten.

``counts`` are the rows that each program has put into its ring in all calls; ``flags``, for each program
and member, how many rows of that one are there. Row r of a program, counted so, is in slot r % SLOTS.
Before it is written, row r - 1 of all peers is there: each had then asked for row r - 2 of its peers and
used row r - 3. So four slots need no word back. Rings hold rows of one size; other sizes have their own.
"""

import triton
import triton.language as tl

from ..triton.chosen import meet, poll, release_set
from ..triton.teams import team_row, world_pe
from ..triton.words import ALL_REDUCE, CMP_GE
from .norm_kernels import finish_row, load_gains, load_residual, near_place

SLOTS = tl.constexpr(4)


@triton.jit
def _row_of(x, number, tokens, offs, inside, HIDDEN: tl.constexpr):
    """Row ``number``, or zeros behind the last: loads that nothing waits for."""
    places = number.to(tl.int64) * HIDDEN + offs
    there = tl.zeros([offs.numel], tl.int32) + number < tokens
    return tl.load(x + places, mask=inside & there, other=0)


@triton.jit
def _put(row, slot, offs, inside, count, words, mine, MEMBERS: tl.constexpr):
    """Puts a row where peers load it, and says to each that ``count`` are there."""
    tl.store(slot + offs, row, mask=inside)
    for member in tl.static_range(MEMBERS):
        if member != mine:
            release_set(words[member], count)


@triton.jit
def _wait_for_rows(
    flags, count, pes, mine, ctx, MEMBERS: tl.constexpr, THREADS: tl.constexpr
):  # fmt: skip
    """Until all members have ``count`` rows in their rings: a thread for each of them looks."""
    lanes = tl.arange(0, THREADS)
    active = (lanes < MEMBERS) & (lanes != mine)
    poll(active.to(tl.int32), flags + lanes, CMP_GE, count, pes, ALL_REDUCE, ctx)
    meet()


@triton.jit(do_not_specialize=["tokens", "mine"])
def pull(
    x, residual, weight, bias, out, residual_out, scales, tokens, eps, ring, counts, flags, mine, ctx,
    TEAM: tl.constexpr, MEMBERS: tl.constexpr, THREADS: tl.constexpr, HIDDEN: tl.constexpr,
    BLOCK: tl.constexpr, NORM: tl.constexpr, RESIDUAL: tl.constexpr, BIAS: tl.constexpr,
    GROUP: tl.constexpr,
):  # fmt: skip
    """Every PE loads each row of all others and finishes it. ``mine`` is the caller's number."""
    offs = tl.arange(0, BLOCK)
    inside = offs < HIDDEN
    number = tl.program_id(0)
    own = _row_of(x, number, tokens, offs, inside, HIDDEN)
    count = tl.load(counts + number, volatile=True)
    members = team_row(TEAM, ALL_REDUCE, ctx)
    ring += number.to(tl.int64) * (SLOTS * BLOCK)
    flags += number * MEMBERS
    rings = ()
    words = ()
    for member in tl.static_range(MEMBERS):
        pe = world_pe(TEAM, members, member)
        rings += (near_place(ring, pe, ctx),)
        words += (near_place(flags + mine, pe, ctx),)
    lanes = tl.arange(0, THREADS)
    pes = world_pe(TEAM, members, lanes, mask=lanes < MEMBERS)
    _put(own, ring + (count & (SLOTS - 1)) * BLOCK, offs, inside, count + 1, words, mine, MEMBERS)
    following = _row_of(x, number + tl.num_programs(0), tokens, offs, inside, HIDDEN)
    gain, shift = load_gains(weight, bias, offs, inside, NORM, BIAS)
    while number < tokens:
        places = number.to(tl.int64) * HIDDEN + offs
        more = load_residual(residual, places, inside, RESIDUAL)
        slot = (count & (SLOTS - 1)) * BLOCK
        count += 1
        _wait_for_rows(flags, count, pes, mine, ctx, MEMBERS, THREADS)
        rows = ()
        for member in tl.static_range(MEMBERS):
            theirs = tl.zeros([BLOCK], tl.int32) + mine != member
            rows += (tl.load(rings[member] + slot + offs, mask=inside & theirs, other=0),)
        ahead = number + tl.num_programs(0)
        if ahead < tokens:  # while the loads above are on their way
            slot = (count & (SLOTS - 1)) * BLOCK
            _put(following, ring + slot, offs, inside, count + 1, words, mine, MEMBERS)
        total = tl.zeros([BLOCK], tl.float32)
        for member in tl.static_range(MEMBERS):
            theirs = tl.zeros([BLOCK], tl.int32) + mine != member
            total += tl.where(theirs, rows[member], own).to(tl.float32)
        own = following
        following = _row_of(x, ahead + tl.num_programs(0), tokens, offs, inside, HIDDEN)
        row = (total + more).to(own.dtype)
        tl.store(residual_out + places, row, mask=inside)
        if NORM != "none":
            finish_row(
                row, number, gain, shift, offs, inside, out, scales, eps, HIDDEN, NORM, BIAS, GROUP
            )
        number = ahead
    meet()
    tl.store(counts + tl.program_id(0), count)
