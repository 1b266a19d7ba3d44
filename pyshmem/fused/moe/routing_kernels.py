# SPDX-License-Identifier: BSD-3-Clause
"""Lists of experts and of weights, in kernels: their exchange, and what follows from them.

A list goes to all members, in one of two halves of a symmetric block, which are used in turn. Who writes
a half again, two calls later, has ended the call in between, in which it had the lists of all members;
they sent these in a kernel behind the one that read the half. The last cell of a list may say how long
it would be: the calls of ``SIZED`` have that.

Words of the block: for each program the number of calls, and the number of the last call in which it has
done its step of a layout; for each program that sends and each member the number of its last call, set
by its sender; then the halves: for each member its list, of int32.
"""

from typing import Any, NamedTuple

import triton.language as tl

from ...triton.primitives.backend import device_function, program_barrier, state
from ...triton.runtime.constants import CMP_GE, MY_PE, SIGNAL_SET
from ...triton.signals import signal_op, wait_until_all
from ...triton.teams import world_pe
from ...triton.tile import store
from .wrong_kernels import refuse_experts

#: What stands for an expert that there is not.
WRONG = tl.constexpr(-2)


class Call(NamedTuple):
    """Constants of a call: team, experts of a token, programs that send, those of them with lists.

    BLOCK: cells of a list that one of them sends at a time.
    """

    TEAM: int
    K: int
    PROGRAMS: int
    SENDERS: int
    BLOCK: int


class LayoutTile(NamedTuple):
    """Constants of a layout: K and experts as powers of two, tokens laid out and counted at a time.

    TO: tokens of a program that compares its own with all others; 0: programs count first.
    """

    KP: int
    EP: int
    TB: int
    TN: int
    TO: int = 0


class Layout(NamedTuple):
    """What a layout makes, as a handle has it, and what programs count meanwhile."""

    rows: Any
    pairs: Any
    offsets: Any
    counts: Any


class Routing(NamedTuple):
    """The table in a call: its words, the call's number, where lists of ``cells`` cells start."""

    words: Any
    number: Any
    base: Any
    cells: Any


@device_function
def routing_of_call(table, n_pes):
    """The table in this program's call."""
    number = tl.load(table.block + tl.program_id(0), volatile=True) + 1
    base = (table.block + table.head).to(tl.pointer_type(tl.int32))
    return Routing(table.block, number, base + (number & 1) * n_pes * table.cells, table.cells)


@device_function
def as_cells(values, offs, n_experts, ctx, K: tl.constexpr, CHECKED: tl.constexpr):
    """Experts, or weights, as int32; with CHECKED experts that there are not end the job."""
    if values.dtype.is_floating():
        return values.to(tl.float32).to(tl.int32, bitcast=True)
    else:
        wrong = (values < -1) | (values >= n_experts)
        if CHECKED:
            refuse_experts(wrong, values, offs, ctx, K)
        return tl.where(wrong, WRONG, values).to(tl.int32)


@device_function
def _senders(cells, CALL: tl.constexpr):
    """How many programs have something to send of lists of ``cells`` cells; the same on all members."""
    BLOCK: tl.constexpr = CALL.BLOCK
    SENDERS: tl.constexpr = CALL.SENDERS
    return tl.minimum((cells + BLOCK - 1) // BLOCK, SENDERS)


@device_function
def send_lists(
    routing, mine, elems, most, longest, n_experts, program, members, ctx, CALL: tl.constexpr,
    CHECKED: tl.constexpr, SIZED: tl.constexpr = False,
):  # fmt: skip
    """The caller's list of ``elems`` elements, filled up with -1 to ``most``, goes to all members.

    ``longest`` is the length of the longest list of all members; ``program`` counts those that call.
    With ``SIZED``, ``elems`` may be more than ``most``, and goes along.
    """
    TEAM: tl.constexpr = CALL.TEAM
    K: tl.constexpr = CALL.K
    PROGRAMS: tl.constexpr = CALL.PROGRAMS
    SENDERS: tl.constexpr = CALL.SENDERS
    BLOCK: tl.constexpr = CALL.BLOCK
    row, me, n_pes = members
    base, cells = routing.base, routing.cells
    if program < _senders(longest, CALL):
        for first in range(program * BLOCK, most, SENDERS * BLOCK):
            offs = first + tl.arange(0, BLOCK)
            values = tl.load(mine + offs, mask=offs < elems, other=-1)
            values = as_cells(values, offs, n_experts, ctx, K, CHECKED)
            for k in range(n_pes):
                member = (me + 1 + k) % n_pes
                pe = world_pe(TEAM, row, member)
                store(base + me * cells + offs, values, pe, ctx, mask=offs < most)
        if SIZED:
            if program == 0:
                last = base + (me + 1) * cells - 1 + tl.arange(0, 1)
                for k in range(n_pes):
                    pe = world_pe(TEAM, row, (me + 1 + k) % n_pes)
                    store(last, tl.zeros([1], tl.int32) + elems, pe, ctx)
        sent = routing.words + 4 * PROGRAMS + program * n_pes + me
        for k in range(n_pes):
            pe = world_pe(TEAM, row, (me + 1 + k) % n_pes)
            signal_op(sent, routing.number, SIGNAL_SET, pe, ctx)


@device_function
def await_lists(routing, longest, n_pes, ctx, CALL: tl.constexpr):
    """The lists of all members are there when it returns."""
    PROGRAMS: tl.constexpr = CALL.PROGRAMS
    words = _senders(longest, CALL) * n_pes
    wait_until_all(routing.words + 4 * PROGRAMS, words, CMP_GE, routing.number, ctx)


@device_function
def _longest(base, cells, n_pes):
    """How long the longest list of all members would be, in cells."""
    found = tl.cast(0, tl.int32)
    for member in range(n_pes):
        found = tl.maximum(found, tl.load(base + (member + 1) * cells - 1))
    return found


@device_function
def _await_all(
    routing, ctx, STEP: tl.constexpr, WORKERS: tl.constexpr, PROGRAMS: tl.constexpr
):  # fmt: skip
    """``WORKERS`` programs have done that step of the layout, and what they stored before is seen."""
    wait_until_all(routing.words + (2 + STEP) * PROGRAMS, WORKERS, CMP_GE, routing.number, ctx)


@device_function
def _sync_all(
    routing, program, ctx, STEP: tl.constexpr, WORKERS: tl.constexpr, PROGRAMS: tl.constexpr
):  # fmt: skip
    """The caller has done it too, and waits for the others."""
    done = routing.words + (2 + STEP) * PROGRAMS + program
    signal_op(done, routing.number, SIGNAL_SET, state(ctx, MY_PE), ctx)
    _await_all(routing, ctx, STEP, WORKERS, PROGRAMS)


@device_function
def end_routing(routing):
    """The program has no more to do with the lists of this call."""
    program_barrier()
    tl.store(routing.words + tl.program_id(0), routing.number)


@device_function
def goes_to(member, ids, t, tokens, experts, K: tl.constexpr):
    """Whether tokens ``t``, of ``tokens``, have an expert of the member's; ``ids`` are the tokens'."""
    first = tl.cast(member, tl.int64) * experts
    found = t < 0
    for j in tl.static_range(K):
        expert = tl.load(ids + t.to(tl.int64) * K + j, mask=t < tokens, other=-1).to(tl.int64)
        found = found | ((expert >= first) & (expert < first + experts))
    return found


@device_function
def _experts_of(ids, cells, i, n_tokens, most, first, K: tl.constexpr, KP: tl.constexpr):
    """Experts of tokens, which are numbered through all members, from ``first``; the mask; ids."""
    js = tl.arange(0, KP)[None, :]
    inside = (i < n_tokens) & (js < K)
    cell = (i // most) * cells + (i % most) * K + js
    found = tl.load(ids + cell, mask=inside, other=-1)
    return tl.where(found >= 0, found - first, -1), inside, found


@device_function
def _hits(local, found, experts, KP: tl.constexpr, TB: tl.constexpr, EP: tl.constexpr):
    """(TB * KP, EP): 1 where a pair is that of the expert, or behind them of one that there is not."""
    ours = (local >= 0) & (local < experts)
    kind = tl.where(ours, local, tl.where(found == WRONG, experts + 1, -1))
    flat = tl.reshape(kind, [TB * KP])
    return (flat[:, None] == tl.arange(0, EP)[None, :]).to(tl.int32)


@device_function
def _count(
    counts, ids, cells, most, first, experts, lo, hi, program, K: tl.constexpr, TILE: tl.constexpr
):  # fmt: skip
    """Row ``program`` of ``counts``: how many pairs each expert has among the tokens ``lo`` to ``hi``.

    Behind them, how many of the tokens come, how many experts there are not, and the pairs of others.
    """
    KP: tl.constexpr = TILE.KP
    TN: tl.constexpr = TILE.TN
    EP: tl.constexpr = TILE.EP
    es = tl.arange(0, EP)
    counted = tl.zeros([EP], tl.int32)
    for i0 in range(lo, hi, TN):
        i = i0 + tl.arange(0, TN)[:, None]
        local, _, found = _experts_of(ids, cells, i, hi, most, first, K, KP)
        ours = (local >= 0) & (local < experts)
        kind = tl.where(ours, local, tl.where(found == WRONG, experts + 1, experts + 2))
        counted += tl.histogram(tl.reshape(kind, [TN * KP]), EP)
        counted += tl.where(es == experts, tl.sum(tl.max(ours.to(tl.int32), 1), 0), 0)
    tl.store(counts + program * EP + es, counted)


@device_function
def _starts(counts, experts, program, WORKERS: tl.constexpr, TILE: tl.constexpr):
    """What follows from all counts, as vectors of ``EP`` elements, like the rows of ``counts``.

    Returns: where each expert's pairs start, what the programs before this one have, and what all have.
    """
    KP: tl.constexpr = TILE.KP
    TB: tl.constexpr = TILE.TB
    EP: tl.constexpr = TILE.EP
    es = tl.arange(0, EP)
    total, before = tl.zeros([EP], tl.int32), tl.zeros([EP], tl.int32)
    for s0 in range(0, WORKERS, TB * KP):
        s = s0 + tl.arange(0, TB * KP)[:, None]
        some = tl.load(
            counts + s * EP + es[None, :], mask=(s < WORKERS) & (es[None, :] >= 0), other=0
        )
        total += tl.sum(some, 0)
        before += tl.sum(tl.where(s < program, some, 0), 0)
    pairs = tl.where(es < experts, total, 0)
    return tl.cumsum(pairs, 0) - pairs, before, total


@device_function
def _of(vector, e, EP: tl.constexpr):
    """One element."""
    return tl.sum(tl.where(tl.arange(0, EP) == e, vector, 0), 0)


@device_function
def _report(words, total, experts, longest, EP: tl.constexpr):
    """To the host, each number with one more, which is how it sees that it is there.

    They are how many pairs and rows there are, how many experts there are not, and the longest list.
    """
    pairs = tl.sum(tl.where(tl.arange(0, EP) < experts, total, 0), 0)
    rows, wrong = _of(total, experts, EP), _of(total, experts + 1, EP)
    tl.store(words, pairs.to(tl.int64) + 1, cache_modifier=".wt")
    tl.store(words + 1, rows.to(tl.int64) + 1, cache_modifier=".wt")
    tl.store(words + 2, wrong.to(tl.int64) + 1, cache_modifier=".wt")
    tl.store(words + 3, longest.to(tl.int64) + 1, cache_modifier=".wt")


@device_function
def _put_positions(
    positions, ids, cells, most, first, experts, lo, hi, row, K: tl.constexpr, TILE: tl.constexpr
):  # fmt: skip
    """Rows of the tokens ``lo`` to ``hi``, from ``row`` on; -1 for those that do not come."""
    KP: tl.constexpr = TILE.KP
    TN: tl.constexpr = TILE.TN
    for i0 in range(lo, hi, TN):
        i = i0 + tl.arange(0, TN)
        local, _, _ = _experts_of(ids, cells, i[:, None], hi, most, first, K, KP)
        comes = tl.max(((local >= 0) & (local < experts)).to(tl.int32), 1)
        at = row + tl.cumsum(comes, 0) - comes
        tl.store(positions + i, tl.where(comes != 0, at, -1), mask=i < hi)
        row += tl.sum(comes, 0)


@device_function
def _put_pairs(
    made, ids, cells, most, first, experts, lo, hi, start, row, COMPACT: tl.constexpr, K: tl.constexpr,
    TILE: tl.constexpr,
):  # fmt: skip
    """Places of the pairs of the tokens ``lo`` to ``hi``, and their rows."""
    KP: tl.constexpr = TILE.KP
    TB: tl.constexpr = TILE.TB
    EP: tl.constexpr = TILE.EP
    js = tl.arange(0, KP)[None, :]
    for i0 in range(lo, hi, TB):
        flat = i0 + tl.arange(0, TB)
        i = flat[:, None]
        local, inside, found = _experts_of(ids, cells, i, hi, most, first, K, KP)
        ours = (local >= 0) & (local < experts)
        hits = _hits(local, found, experts, KP, TB, EP)
        rank = tl.cumsum(hits, 0) - hits
        place = tl.reshape(tl.sum(hits * (start[None, :] + rank), 1), [TB, KP])
        comes = tl.max(ours.to(tl.int32), 1)
        at = row + tl.cumsum(comes, 0) - comes if COMPACT else flat
        tl.store(made.pairs + i * K + js, tl.where(ours, place, -1), mask=inside)
        tl.store(made.rows + place, at[:, None] + js * 0, mask=ours)
        start += tl.sum(hits, 0)
        row += tl.sum(comes, 0)


@device_function
def _segment(n_tokens, program, WORKERS: tl.constexpr):
    """The tokens of which a program lays out the pairs: from which on, and up to which."""
    length = (n_tokens + WORKERS - 1) // WORKERS
    lo = tl.minimum(program * length, n_tokens)
    return lo, tl.minimum(lo + length, n_tokens)


@device_function
def lay_out_rows(
    positions, counts, words, routing, n_pes, most, first, experts, program, ctx, WORKERS: tl.constexpr,
    CALL: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """Where tokens go that come, and what the host asks for; the work of one of ``WORKERS`` programs.

    Each has a segment of the tokens: it counts, waits for what the others have counted, and knows then
    where its own rows stand among all.
    """
    K: tl.constexpr = CALL.K
    PROGRAMS: tl.constexpr = CALL.PROGRAMS
    EP: tl.constexpr = TILE.EP
    ids, cells = routing.base, routing.cells
    lo, hi = _segment((n_pes * most).to(tl.int32), program, WORKERS)
    _count(counts, ids, cells, most, first, experts, lo, hi, program, K, TILE)
    _sync_all(routing, program, ctx, 0, WORKERS, PROGRAMS)
    _, before, total = _starts(counts, experts, program, WORKERS, TILE)
    if program == 0:
        _report(words, total, experts, _longest(ids, cells, n_pes), EP)
    row = _of(before, experts, EP)
    _put_positions(positions, ids, cells, most, first, experts, lo, hi, row, K, TILE)


@device_function
def await_rows(routing, program, ctx, WORKERS: tl.constexpr, PROGRAMS: tl.constexpr):
    """All programs have done ``lay_out_rows``, of which each has half of the words at most."""
    _sync_all(routing, program, ctx, 1, WORKERS, PROGRAMS)


@device_function
def await_positions(routing, ctx, PROGRAMS: tl.constexpr):
    """The same for a program that has no part in ``lay_out_rows``."""
    _await_all(routing, ctx, 1, PROGRAMS, PROGRAMS)


@device_function
def lay_out_pairs(
    made, routing, n_tokens, most, first, experts, program, ctx, WORKERS: tl.constexpr,
    COMPACT: tl.constexpr, CALL: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """Which rows belong to which of the caller's experts, once ``WORKERS`` programs have counted.

    Returns: how many pairs there are.
    """
    K: tl.constexpr = CALL.K
    PROGRAMS: tl.constexpr = CALL.PROGRAMS
    EP: tl.constexpr = TILE.EP
    es = tl.arange(0, EP)
    _await_all(routing, ctx, 0, WORKERS, PROGRAMS)
    start, before, total = _starts(made.counts, experts, program, WORKERS, TILE)
    if program == 0:
        tl.store(made.offsets + es, start, mask=es <= experts)
    lo, hi = _segment(n_tokens, program, WORKERS)
    row = _of(before, experts, EP)
    _put_pairs(
        made, routing.base, routing.cells, most, first, experts, lo, hi, start + before, row, COMPACT,
        K, TILE,
    )  # fmt: skip
    return tl.sum(tl.where(es < experts, total, 0), 0)


@device_function
def lay_out(
    made, routing, n_tokens, most, first, experts, program, ctx, CALL: tl.constexpr, TILE: tl.constexpr
):  # fmt: skip
    """Decoding: a token's row follows from its number. The work of one of the programs that send.

    ``rows`` that name no token name row 0, so that they may be looked up.
    """
    K: tl.constexpr = CALL.K
    PROGRAMS: tl.constexpr = CALL.PROGRAMS
    KP: tl.constexpr = TILE.KP
    TB: tl.constexpr = TILE.TB
    lo, hi = _segment(n_tokens, program, PROGRAMS)
    _count(
        made.counts, routing.base, routing.cells, most, first, experts, lo, hi, program, K, TILE
    )  # fmt: skip
    _sync_all(routing, program, ctx, 0, PROGRAMS, PROGRAMS)
    total = lay_out_pairs(
        made, routing, n_tokens, most, first, experts, program, ctx, PROGRAMS, False, CALL, TILE
    )
    for i0 in range(program * TB * KP, n_tokens * K, PROGRAMS * TB * KP):
        i = i0 + tl.arange(0, TB * KP)
        tl.store(made.rows + i, i * 0, mask=(i >= total) & (i < n_tokens * K))


@device_function
def _pairs_of(
    ids, cells, i0, last, most, first, experts, K: tl.constexpr, KP: tl.constexpr, T: tl.constexpr
):  # fmt: skip
    """(T * KP,) the caller's experts of tokens ``i0`` on; ``experts`` for those of others."""
    i = i0 + tl.arange(0, T)[:, None]
    local, inside, _ = _experts_of(ids, cells, i, last, most, first, K, KP)
    ours = inside & (local >= 0) & (local < experts)
    return tl.reshape(tl.where(ours, local, experts), [T * KP])


@device_function
def lay_out_few(
    made, routing, n_tokens, most, first, experts, capacity, program, CALL: tl.constexpr,
    TILE: tl.constexpr,
):  # fmt: skip
    """``lay_out`` for lists so short that each program compares its pairs, of ``TO`` tokens, with all.

    None waits for another.
    """
    K: tl.constexpr = CALL.K
    PROGRAMS: tl.constexpr = CALL.PROGRAMS
    KP: tl.constexpr = TILE.KP
    TO: tl.constexpr = TILE.TO
    TB: tl.constexpr = TILE.TB
    ids, cells = routing.base, routing.cells
    lo = program * TO
    own = _pairs_of(ids, cells, lo, n_tokens, most, first, experts, K, KP, TO)
    order = lo * KP + tl.arange(0, TO * KP)
    place, total = own * 0, tl.cast(0, tl.int32)
    for i0 in range(0, n_tokens, TB):
        other = _pairs_of(ids, cells, i0, n_tokens, most, first, experts, K, KP, TB)
        others = i0 * KP + tl.arange(0, TB * KP)
        earlier = (other[None, :] == own[:, None]) & (others[None, :] < order[:, None])
        place += tl.sum((earlier | (other[None, :] < own[:, None])).to(tl.int32), 1)
        total += tl.sum((other < experts).to(tl.int32), 0)
    i, j = order // KP, order % KP
    tl.store(
        made.pairs + i * K + j, tl.where(own < experts, place, -1), mask=(i < n_tokens) & (j < K)
    )
    tl.store(made.rows + place, i, mask=own < experts)
    for i0 in range(program * TB * KP, capacity, PROGRAMS * TB * KP):
        flat = i0 + tl.arange(0, TB * KP)
        tl.store(made.rows + flat, flat * 0, mask=(flat >= total) & (flat < capacity))
    for e in range(program, experts + 1, PROGRAMS):
        start = tl.cast(0, tl.int32)
        for i0 in range(0, n_tokens, TB):
            other = _pairs_of(ids, cells, i0, n_tokens, most, first, experts, K, KP, TB)
            start += tl.sum((other < e).to(tl.int32), 0)
        tl.store(made.offsets + e, start)
