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

import triton.language as tl

from ...triton.primitives.backend import device_function, meet, state
from ...triton.runtime.constants import CMP_GE, MY_PE, SIGNAL_SET
from ...triton.signals import signal_op, wait_until_all
from ...triton.teams import world_pe
from ...triton.tile import store
from .wrong_kernels import refuse_experts

#: What stands for an expert that there is not.
WRONG = tl.constexpr(-2)


@device_function
def lists_of_call(lists, head, cells, n_pes):
    """The number of this program's call, and where the lists of its half start."""
    number = tl.load(lists + tl.program_id(0), volatile=True) + 1
    base = (lists + head).to(tl.pointer_type(tl.int32))
    return number, base + (number & 1) * n_pes * cells


@device_function
def _as_cells(values, offs, n_experts, ctx, K: tl.constexpr, CHECKED: tl.constexpr):
    """Experts, or weights, as int32; with CHECKED experts that there are not end the job."""
    if values.dtype.is_floating():
        return values.to(tl.float32).to(tl.int32, bitcast=True)
    else:
        wrong = (values < -1) | (values >= n_experts)
        if CHECKED:
            refuse_experts(wrong, values, offs, ctx, K)
        return tl.where(wrong, WRONG, values).to(tl.int32)


@device_function
def _senders(cells, LISTERS: tl.constexpr, BLOCK: tl.constexpr):
    """How many programs have something to send of lists of ``cells`` cells; the same on all members."""
    return tl.minimum((cells + BLOCK - 1) // BLOCK, LISTERS)


@device_function
def send_lists(
    lists, number, base, cells, mine, elems, most, longest, n_experts, lane, team, row, me, n_pes, ctx,
    K: tl.constexpr, PROGRAMS: tl.constexpr, LISTERS: tl.constexpr, BLOCK: tl.constexpr,
    CHECKED: tl.constexpr, SIZED: tl.constexpr = False,
):  # fmt: skip
    """The caller's list of ``elems`` elements, filled up with -1 to ``most``, goes to all members.

    ``longest`` is the length of the longest list of all members; ``lane`` counts programs that call.
    With ``SIZED``, ``elems`` may be more than ``most``, and goes along.
    """
    if lane < _senders(longest, LISTERS, BLOCK):
        for first in range(lane * BLOCK, most, LISTERS * BLOCK):
            offs = first + tl.arange(0, BLOCK)
            values = tl.load(mine + offs, mask=offs < elems, other=-1)
            values = _as_cells(values, offs, n_experts, ctx, K, CHECKED)
            for k in range(n_pes):
                member = (me + 1 + k) % n_pes
                pe = world_pe(team, row, member)
                store(base + me * cells + offs, values, pe, ctx, mask=offs < most)
        if SIZED:
            if lane == 0:
                last = base + (me + 1) * cells - 1 + tl.arange(0, 1)
                for k in range(n_pes):
                    pe = world_pe(team, row, (me + 1 + k) % n_pes)
                    store(last, tl.zeros([1], tl.int32) + elems, pe, ctx)
        sent = lists + 4 * PROGRAMS + lane * n_pes + me
        for k in range(n_pes):
            pe = world_pe(team, row, (me + 1 + k) % n_pes)
            signal_op(sent, number, SIGNAL_SET, pe, ctx)


@device_function
def await_lists(
    lists, number, longest, n_pes, ctx, PROGRAMS: tl.constexpr, LISTERS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """The lists of all members are there when it returns."""
    words = _senders(longest, LISTERS, BLOCK) * n_pes
    wait_until_all(lists + 4 * PROGRAMS, words, CMP_GE, number, ctx)


@device_function
def _longest(base, cells, n_pes):
    """How long the longest list of all members would be, in cells."""
    found = tl.cast(0, tl.int32)
    for member in range(n_pes):
        found = tl.maximum(found, tl.load(base + (member + 1) * cells - 1))
    return found


@device_function
def _await_all(lists, number, ctx, STEP: tl.constexpr, LANES: tl.constexpr, PROGRAMS: tl.constexpr):
    """``LANES`` programs have done that step of the layout, and what they stored before is seen."""
    wait_until_all(lists + (2 + STEP) * PROGRAMS, LANES, CMP_GE, number, ctx)


@device_function
def _meet_all(
    lists, number, lane, ctx, STEP: tl.constexpr, LANES: tl.constexpr, PROGRAMS: tl.constexpr
):  # fmt: skip
    """The caller has done it too, and waits for the others."""
    done = lists + (2 + STEP) * PROGRAMS + lane
    signal_op(done, number, SIGNAL_SET, state(ctx, MY_PE), ctx)
    _await_all(lists, number, ctx, STEP, LANES, PROGRAMS)


@device_function
def end_lists(lists, number):
    """The program has no more to do with the lists of this call."""
    meet()
    tl.store(lists + tl.program_id(0), number)


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
    counts, ids, cells, most, first, experts, lo, hi, lane, K: tl.constexpr, KP: tl.constexpr,
    TN: tl.constexpr, EP: tl.constexpr,
):  # fmt: skip
    """Row ``lane`` of ``counts``: how many pairs each expert has among the tokens ``lo`` to ``hi``.

    Behind them, how many of the tokens come, how many experts there are not, and the pairs of others.
    """
    es = tl.arange(0, EP)
    counted = tl.zeros([EP], tl.int32)
    for i0 in range(lo, hi, TN):
        i = i0 + tl.arange(0, TN)[:, None]
        local, _, found = _experts_of(ids, cells, i, hi, most, first, K, KP)
        ours = (local >= 0) & (local < experts)
        kind = tl.where(ours, local, tl.where(found == WRONG, experts + 1, experts + 2))
        counted += tl.histogram(tl.reshape(kind, [TN * KP]), EP)
        counted += tl.where(es == experts, tl.sum(tl.max(ours.to(tl.int32), 1), 0), 0)
    tl.store(counts + lane * EP + es, counted)


@device_function
def _starts(
    counts, experts, lane, LANES: tl.constexpr, TB: tl.constexpr, KP: tl.constexpr, EP: tl.constexpr
):
    """What follows from all counts, as vectors of ``EP`` elements, like the rows of ``counts``.

    Returns: where each expert's pairs start, what the programs before this one have, and what all have.
    """
    es = tl.arange(0, EP)
    total, before = tl.zeros([EP], tl.int32), tl.zeros([EP], tl.int32)
    for s0 in range(0, LANES, TB * KP):
        s = s0 + tl.arange(0, TB * KP)[:, None]
        some = tl.load(
            counts + s * EP + es[None, :], mask=(s < LANES) & (es[None, :] >= 0), other=0
        )
        total += tl.sum(some, 0)
        before += tl.sum(tl.where(s < lane, some, 0), 0)
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
    positions, ids, cells, most, first, experts, lo, hi, row, K: tl.constexpr, KP: tl.constexpr,
    TN: tl.constexpr,
):  # fmt: skip
    """Rows of the tokens ``lo`` to ``hi``, from ``row`` on; -1 for those that do not come."""
    for i0 in range(lo, hi, TN):
        i = i0 + tl.arange(0, TN)
        local, _, _ = _experts_of(ids, cells, i[:, None], hi, most, first, K, KP)
        comes = tl.max(((local >= 0) & (local < experts)).to(tl.int32), 1)
        at = row + tl.cumsum(comes, 0) - comes
        tl.store(positions + i, tl.where(comes != 0, at, -1), mask=i < hi)
        row += tl.sum(comes, 0)


@device_function
def _put_pairs(
    rows, pairs, ids, cells, most, first, experts, lo, hi, start, row, COMPACT: tl.constexpr,
    K: tl.constexpr, KP: tl.constexpr, TB: tl.constexpr, EP: tl.constexpr,
):  # fmt: skip
    """Places of the pairs of the tokens ``lo`` to ``hi``, and their rows."""
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
        tl.store(pairs + i * K + js, tl.where(ours, place, -1), mask=inside)
        tl.store(rows + place, at[:, None] + js * 0, mask=ours)
        start += tl.sum(hits, 0)
        row += tl.sum(comes, 0)


@device_function
def _segment(n_tokens, lane, LANES: tl.constexpr):
    """The tokens of which a program lays out the pairs: from which on, and up to which."""
    length = (n_tokens + LANES - 1) // LANES
    lo = tl.minimum(lane * length, n_tokens)
    return lo, tl.minimum(lo + length, n_tokens)


@device_function
def lay_out_rows(
    positions, counts, words, lists, number, ids, cells, n_pes, most, first, experts, lane, ctx,
    LANES: tl.constexpr, PROGRAMS: tl.constexpr, K: tl.constexpr, KP: tl.constexpr, TB: tl.constexpr,
    TN: tl.constexpr, EP: tl.constexpr,
):  # fmt: skip
    """Where tokens go that come, and what the host asks for; the work of program ``lane`` of ``LANES``.

    Each has a segment of the tokens: it counts, waits for what the others have counted, and knows then
    where its own rows stand among all.
    """
    lo, hi = _segment((n_pes * most).to(tl.int32), lane, LANES)
    _count(counts, ids, cells, most, first, experts, lo, hi, lane, K, KP, TN, EP)
    _meet_all(lists, number, lane, ctx, 0, LANES, PROGRAMS)
    _, before, total = _starts(counts, experts, lane, LANES, TB, KP, EP)
    if lane == 0:
        _report(words, total, experts, _longest(ids, cells, n_pes), EP)
    row = _of(before, experts, EP)
    _put_positions(positions, ids, cells, most, first, experts, lo, hi, row, K, KP, TN)


@device_function
def await_rows(lists, number, lane, ctx, LANES: tl.constexpr, PROGRAMS: tl.constexpr):
    """All programs have done ``lay_out_rows``, of which each has half of the words at most."""
    _meet_all(lists, number, lane, ctx, 1, LANES, PROGRAMS)


@device_function
def await_positions(lists, number, ctx, PROGRAMS: tl.constexpr):
    """The same for a program that has no part in ``lay_out_rows``."""
    _await_all(lists, number, ctx, 1, PROGRAMS, PROGRAMS)


@device_function
def lay_out_pairs(
    rows, pairs, offsets, counts, lists, number, ids, cells, n_tokens, most, first, experts, lane, ctx,
    LANES: tl.constexpr, PROGRAMS: tl.constexpr, COMPACT: tl.constexpr, K: tl.constexpr,
    KP: tl.constexpr, TB: tl.constexpr, EP: tl.constexpr,
):  # fmt: skip
    """Which rows belong to which of the caller's experts, once ``LANES`` programs have counted.

    Returns: how many pairs there are.
    """
    es = tl.arange(0, EP)
    _await_all(lists, number, ctx, 0, LANES, PROGRAMS)
    start, before, total = _starts(counts, experts, lane, LANES, TB, KP, EP)
    if lane == 0:
        tl.store(offsets + es, start, mask=es <= experts)
    lo, hi = _segment(n_tokens, lane, LANES)
    row = _of(before, experts, EP)
    _put_pairs(
        rows, pairs, ids, cells, most, first, experts, lo, hi, start + before, row, COMPACT, K, KP, TB,
        EP,
    )  # fmt: skip
    return tl.sum(tl.where(es < experts, total, 0), 0)


@device_function
def lay_out(
    rows, pairs, offsets, counts, lists, number, ids, cells, n_tokens, most, first, experts, lane, ctx,
    PROGRAMS: tl.constexpr, K: tl.constexpr, KP: tl.constexpr, TB: tl.constexpr, TN: tl.constexpr,
    EP: tl.constexpr,
):  # fmt: skip
    """Decoding: a token's row follows from its number. The work of program ``lane`` of ``PROGRAMS``.

    ``rows`` that name no token name row 0, so that they may be looked up.
    """
    lo, hi = _segment(n_tokens, lane, PROGRAMS)
    _count(counts, ids, cells, most, first, experts, lo, hi, lane, K, KP, TN, EP)
    _meet_all(lists, number, lane, ctx, 0, PROGRAMS, PROGRAMS)
    total = lay_out_pairs(
        rows, pairs, offsets, counts, lists, number, ids, cells, n_tokens, most, first, experts, lane,
        ctx, PROGRAMS, PROGRAMS, False, K, KP, TB, EP,
    )  # fmt: skip
    for i0 in range(lane * TB * KP, n_tokens * K, PROGRAMS * TB * KP):
        i = i0 + tl.arange(0, TB * KP)
        tl.store(rows + i, i * 0, mask=(i >= total) & (i < n_tokens * K))


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
    rows, pairs, offsets, ids, cells, n_tokens, most, first, experts, capacity, lane,
    LANES: tl.constexpr, K: tl.constexpr, KP: tl.constexpr, TO: tl.constexpr, TB: tl.constexpr,
):  # fmt: skip
    """``lay_out`` for lists so short that each program compares its pairs, of ``TO`` tokens, with all.

    None waits for another.
    """
    lo = lane * TO
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
    tl.store(pairs + i * K + j, tl.where(own < experts, place, -1), mask=(i < n_tokens) & (j < K))
    tl.store(rows + place, i, mask=own < experts)
    for i0 in range(lane * TB * KP, capacity, LANES * TB * KP):
        flat = i0 + tl.arange(0, TB * KP)
        tl.store(rows + flat, flat * 0, mask=(flat >= total) & (flat < capacity))
    for e in range(lane, experts + 1, LANES):
        start = tl.cast(0, tl.int32)
        for i0 in range(0, n_tokens, TB):
            other = _pairs_of(ids, cells, i0, n_tokens, most, first, experts, K, KP, TB)
            start += tl.sum((other < e).to(tl.int32), 0)
        tl.store(offsets + e, start)
