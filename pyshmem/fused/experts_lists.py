# SPDX-License-Identifier: BSD-3-Clause
"""Lists of experts and of weights, in kernels: their exchange, and what follows from them.

A list goes to all members, in one of two halves of a symmetric block, which are used in turn. Who writes
a half again, two calls later, has ended the call in between, in which it had the lists of all members;
they sent these in a kernel behind the one that read the half.

Words of the block: for each program the number of calls; for each program that sends and each member the
number of its last call, set by its sender; then the halves: for each member its list, of int32.
"""

import triton.language as tl

from ..triton.chosen import device_function, meet
from ..triton.requests import abort
from ..triton.signals import signal_op, wait_until_all
from ..triton.teams import world_pe
from ..triton.tile import store
from ..triton.words import CMP_GE, SIGNAL_SET

#: What stands for an expert that there is not.
WRONG = tl.constexpr(-2)


@device_function
def lists_of_call(lists, head, cells, n_pes):
    """The number of this program's call, and where the lists of its half start."""
    number = tl.load(lists + tl.program_id(0), volatile=True) + 1
    base = (lists + head).to(tl.pointer_type(tl.int32))
    return number, base + (number & 1) * n_pes * cells


@device_function
def _as_cells(values, n_experts, ctx, CHECKED: tl.constexpr):
    """Experts, or weights, as int32."""
    if values.dtype.is_floating():
        return values.to(tl.float32).to(tl.int32, bitcast=True)
    else:
        wrong = (values < -1) | (values >= n_experts)
        if CHECKED:
            if tl.max(wrong.to(tl.int32)) != 0:
                abort(1, ctx, "topk_ids: no such expert")
        return tl.where(wrong, WRONG, values).to(tl.int32)


@device_function
def send_lists(
    lists, number, base, cells, mine, elems, most, n_experts, team, row, me, n_pes, ctx,
    PROGRAMS: tl.constexpr, LISTERS: tl.constexpr, BLOCK: tl.constexpr, CHECKED: tl.constexpr,
):  # fmt: skip
    """The caller's list of ``elems`` elements, filled up with -1 to ``most``, goes to all members."""
    lane = tl.program_id(0)
    if lane < LISTERS:
        for first in range(lane * BLOCK, most, LISTERS * BLOCK):
            offs = first + tl.arange(0, BLOCK)
            values = _as_cells(
                tl.load(mine + offs, mask=offs < elems, other=-1), n_experts, ctx, CHECKED
            )
            for k in range(n_pes):
                member = (me + 1 + k) % n_pes
                pe = world_pe(team, row, member)
                store(base + me * cells + offs, values, pe, ctx, mask=offs < most)
        sent = lists + 2 * PROGRAMS + lane * n_pes + me
        for k in range(n_pes):
            pe = world_pe(team, row, (me + 1 + k) % n_pes)
            signal_op(sent, number, SIGNAL_SET, pe, ctx)


@device_function
def await_lists(lists, number, n_pes, ctx, PROGRAMS: tl.constexpr, LISTERS: tl.constexpr):
    """The lists of all members are there when it returns."""
    wait_until_all(lists + 2 * PROGRAMS, LISTERS * n_pes, CMP_GE, number, ctx)


@device_function
def end_lists(lists, number):
    """The program has no more to do with the lists of this call."""
    meet()
    tl.store(lists + tl.program_id(0), number)


@device_function
def _experts_of(ids, cells, i, n_tokens, most, first, K: tl.constexpr, KP: tl.constexpr):
    """Experts of tokens, which are numbered through all members, from ``first``; the mask; ids."""
    js = tl.arange(0, KP)[None, :]
    inside = (i < n_tokens) & (js < K)
    cell = (i // most) * cells + (i % most) * K + js
    found = tl.load(ids + cell, mask=inside, other=-1)
    return tl.where(found >= 0, found - first, -1), inside, found


@device_function
def _place_pairs(
    rows, pairs, offsets, ids, cells, n_tokens, most, first, e, lo, hi,
    K: tl.constexpr, KP: tl.constexpr, TB: tl.constexpr,
):  # fmt: skip
    """Where pairs of the tokens ``lo`` to ``hi`` and the caller's expert ``e`` stand among all pairs."""
    lines, js = tl.arange(0, TB)[:, None], tl.arange(0, KP)[None, :]
    before = tl.zeros([TB, KP], tl.int32)
    for i0 in range(0, n_tokens, TB):
        i = i0 + lines
        local, _, _ = _experts_of(ids, cells, i, n_tokens, most, first, K, KP)
        before += (((local >= 0) & (local < e)) | ((local == e) & (i < lo))).to(tl.int32)
    start = tl.sum(tl.sum(before, 1), 0)
    if lo == 0:
        tl.store(offsets + e, start)
    for i0 in range(lo, hi, TB):
        i = i0 + lines
        local, _, _ = _experts_of(ids, cells, i, n_tokens, most, first, K, KP)
        here = (local == e) & (i < hi)
        flat = tl.reshape(here.to(tl.int32), [TB * KP])
        place = tl.reshape(start + tl.cumsum(flat, 0) - flat, [TB, KP])
        tl.store(pairs + i * K + js, place, mask=here)
        tl.store(rows + place, i + js * 0, mask=here)
        start += tl.sum(flat, 0)


@device_function
def _place_tokens(
    rows, pairs, positions, offsets, ids, cells, n_tokens, most, first, experts, lo, hi, capacity,
    COMPACT: tl.constexpr, K: tl.constexpr, KP: tl.constexpr, TB: tl.constexpr,
):  # fmt: skip
    """Rows of the tokens in ``lo`` to ``hi`` for the caller's experts, -1 for those that do not come.

    Behind the offsets come how many rows there are and how many experts there are not.
    """
    lines, js = tl.arange(0, TB)[:, None], tl.arange(0, KP)[None, :]
    before, all_pairs = tl.zeros([TB], tl.int32), tl.zeros([TB, KP], tl.int32)
    for i0 in range(0, n_tokens, TB):
        i = i0 + lines
        local, _, _ = _experts_of(ids, cells, i, n_tokens, most, first, K, KP)
        ours = ((local >= 0) & (local < experts)).to(tl.int32)
        all_pairs += ours
        before += tl.max(tl.where(i < lo, ours, 0), 1)
    total = tl.sum(tl.sum(all_pairs, 1), 0)
    start = tl.sum(before, 0)
    for i0 in range(lo, hi, TB):
        i = i0 + lines
        local, inside, found = _experts_of(ids, cells, i, n_tokens, most, first, K, KP)
        ours = (local >= 0) & (local < experts) & (i < hi)
        tl.store(pairs + i * K + js, -1 + i * 0 + js * 0, mask=inside & (i < hi) & (ours == 0))
        comes = tl.max(ours.to(tl.int32), 1)
        flat = i0 + tl.arange(0, TB)
        at = start + tl.cumsum(comes, 0) - comes if COMPACT else flat
        tl.store(positions + flat, tl.where(comes != 0, at, -1), mask=flat < hi)
        start += tl.sum(comes, 0)
        wrong = tl.sum(tl.sum(((found == WRONG) & (i < hi)).to(tl.int32), 1), 0)
        if wrong != 0:
            tl.atomic_add(offsets + experts + 2, wrong)
    if lo == 0:
        tl.store(offsets + experts, total)
    if hi == n_tokens:
        tl.store(offsets + experts + 1, start)
        for i0 in range(0, capacity, TB):  # so that they may be looked up
            flat = i0 + tl.arange(0, TB)
            tl.store(rows + flat, flat * 0, mask=(flat >= total) & (flat < capacity))


@device_function
def lay_out(
    rows, pairs, positions, offsets, ids, cells, n_tokens, most, first, experts, capacity, segments,
    lane, LANES: tl.constexpr, COMPACT: tl.constexpr, K: tl.constexpr, KP: tl.constexpr,
    TB: tl.constexpr,
):  # fmt: skip
    """Which rows belong to which of the caller's experts; the work of program ``lane`` of ``LANES``.

    An item of work is an expert and a segment of the tokens, or, behind the last expert, the tokens of a
    segment themselves; no item needs what another one stores.
    """
    length = (n_tokens + segments - 1) // segments
    for item in range(lane, (experts + 1) * segments, LANES):
        e = item // segments
        lo = tl.minimum((item % segments) * length, n_tokens)
        hi = tl.minimum(lo + length, n_tokens)
        if e < experts:
            _place_pairs(
                rows, pairs, offsets, ids, cells, n_tokens, most, first, e, lo, hi, K, KP, TB
            )
        else:
            _place_tokens(
                rows, pairs, positions, offsets, ids, cells, n_tokens, most, first, experts, lo, hi,
                capacity, COMPACT, K, KP, TB,
            )  # fmt: skip
