# SPDX-License-Identifier: BSD-3-Clause
"""Kernels of ``expert_dispatch``: tokens go to their experts.

Tokens travel in chunks of ``rows`` tokens of a member, through slots; a token has its place in the slot
whether it goes to that member or not, and is stored only if it does. What stays on its PE goes through
no slot: who receives a chunk of the others' tokens copies the same chunk of the caller's meanwhile.
"""

import triton
import triton.language as tl

from ...triton.primitives.backend import device_function
from ...triton.runtime.constants import ALLTOALL
from ...triton.teams import place_in, team_row, world_pe
from ...triton.tile import store
from .._shared.fp8_kernels import FP8_MAX, to_fp8
from .._shared.slots_kernels import (
    SENT,
    TAKEN,
    await_free,
    await_slot,
    close_others,
    free_slot,
    next_slot,
    send_slot,
    slot_again,
    slot_number,
    slot_rows,
)
from .routing_kernels import (
    await_lists,
    await_rows,
    end_lists,
    goes_to,
    lay_out,
    lay_out_few,
    lay_out_pairs,
    lay_out_rows,
    lists_of_call,
    send_lists,
)

_GROUP = tl.constexpr(128)  # elements with one scale


@device_function
def _quantized(value, TR: tl.constexpr, TC: tl.constexpr):
    """Rows as FP8, as bytes, and their scales."""
    groups = tl.reshape(value.to(tl.float32), [TR, TC // _GROUP, _GROUP])
    scale = tl.div_rn(tl.maximum(tl.max(tl.abs(groups), 2), 1e-10), FP8_MAX)
    inverse = 1.0 / scale  # a division for each group, not for each element
    bits = to_fp8(tl.reshape(groups * inverse[:, :, None], [TR, TC])).to(tl.uint8, bitcast=True)
    return bits, scale


@device_function
def _store_rows(
    value, goes, place, r, pitch, width, c0, pe, ctx, FP8: tl.constexpr, TR: tl.constexpr,
    TC: tl.constexpr,
):  # fmt: skip
    """Columns ``c0`` on of tokens into their places of a slot on ``pe``; scales of FP8 are behind."""
    cols = c0 + tl.arange(0, TC)[None, :]
    dtype: tl.constexpr = tl.uint8 if FP8 else value.dtype
    row = slot_rows(place, r, pitch, dtype)[:, None]
    if FP8:
        value, scale = _quantized(value, TR, TC)
        at = c0 // _GROUP + tl.arange(0, TC // _GROUP)[None, :]
        scales = (row + width).to(tl.pointer_type(tl.float32))
        store(scales + at, scale, pe, ctx, mask=goes & (at < width // _GROUP))
    store(row + cols, value, pe, ctx, mask=goes & (cols < width))


@device_function
def take_rows(
    out, scales, at, comes, place, r, pitch, width, FP8: tl.constexpr, TC: tl.constexpr
):  # fmt: skip
    """Tokens out of a slot, those that have come, to their rows ``at``."""
    comes, at = comes[:, None], at.to(tl.int64)[:, None]
    source = slot_rows(place, r, pitch, out.dtype.element_ty)[:, None]
    for c0 in range(0, width, TC):
        cols = c0 + tl.arange(0, TC)[None, :]
        value = tl.load(source + cols, mask=comes & (cols < width))
        tl.store(out + at * width + cols, value, mask=comes & (cols < width))
    if FP8:
        there = slot_rows(place, r, pitch, tl.uint8)[:, None] + width
        for c0 in range(0, width // _GROUP, TC // _GROUP):
            cols = c0 + tl.arange(0, TC // _GROUP)[None, :]
            inside = comes & (cols < width // _GROUP)
            scale = tl.load(there.to(tl.pointer_type(tl.float32)) + cols, mask=inside)
            tl.store(scales + at * (width // _GROUP) + cols, scale, mask=inside)


@device_function
def _keep_rows(
    out, scales, at, comes, x, t, width, FP8: tl.constexpr, TR: tl.constexpr, TC: tl.constexpr
):  # fmt: skip
    """The caller's own tokens that one of its experts wants, to their rows ``at``."""
    comes, at = comes[:, None], at.to(tl.int64)[:, None]
    source = x + t.to(tl.int64)[:, None] * width
    for c0 in range(0, width, TC):
        cols = c0 + tl.arange(0, TC)[None, :]
        value = tl.load(source + cols, mask=comes & (cols < width), other=0)
        if FP8:
            value, scale = _quantized(value, TR, TC)
            group = c0 // _GROUP + tl.arange(0, TC // _GROUP)[None, :]
            inside = comes & (group < width // _GROUP)
            tl.store(scales + at * (width // _GROUP) + group, scale, mask=inside)
        tl.store(out + at * width + cols, value, mask=comes & (cols < width))


@device_function
def _send_tokens(
    x, ids, tokens, experts, block, head, words, chunks, rows, pitch, width, team, row, me, n_pes, ctx,
    FP8: tl.constexpr, ALL: tl.constexpr, K: tl.constexpr, PROGRAMS: tl.constexpr, TR: tl.constexpr,
    TC: tl.constexpr,
):  # fmt: skip
    """Chunks ``lane``, ``lane + PROGRAMS``, ... go to all other members.

    With ``ALL``, tokens are loaded before it is known whether they go; that a slot is free is waited for
    behind the first load.
    """
    lane = tl.program_id(0)
    for chunk in range(lane, chunks, PROGRAMS):
        nth = chunk // PROGRAMS
        for k in range(n_pes - 1):
            member = (me + 1 + k) % n_pes
            pe = world_pe(team, row, member)
            number, place = next_slot(block, head, words, nth, lane, me, member, n_pes, PROGRAMS)
            for r0 in range(0, rows, TR):
                r = r0 + tl.arange(0, TR)
                t = (chunk * rows + r).to(tl.int32)
                goes = (goes_to(member, ids, t, tokens, experts, K) & (r < rows))[:, None]
                needed = ((t < tokens) & (r < rows))[:, None] if ALL else goes
                for c0 in range(0, width, TC):
                    cols = c0 + tl.arange(0, TC)[None, :]
                    source = x + t.to(tl.int64)[:, None] * width + cols
                    value = tl.load(source, mask=needed & (cols < width), other=0)
                    if (r0 == 0) & (c0 == 0):
                        await_free(block, number, lane, member, pe, n_pes, PROGRAMS, ctx)
                    _store_rows(value, goes, place, r, pitch, width, c0, pe, ctx, FP8, TR, TC)
            send_slot(block, number, lane, me, pe, n_pes, PROGRAMS, ctx)
    close_others(block, SENT, lane, me, n_pes, chunks, PROGRAMS)


@device_function
def _row_of(
    positions, ids, t, valid, member, me, most, experts, COMPACT: tl.constexpr, K: tl.constexpr
):  # fmt: skip
    """Rows of a member's tokens ``t``, and whether they come to the caller.

    With ``COMPACT`` ``positions`` says both, else the tokens' numbers and ``ids``.
    """
    at = (member * most + t).to(tl.int32)
    if COMPACT:
        at = tl.load(positions + at, mask=valid, other=-1)
        return at, at >= 0
    else:
        return at, goes_to(me, ids, t, most, experts, K) & valid


@device_function
def keep_tokens(
    out, scales, positions, x, ids, tokens, chunk, rows, most, experts, width, me, n_pes,
    FP8: tl.constexpr, COMPACT: tl.constexpr, K: tl.constexpr, TR: tl.constexpr, TC: tl.constexpr,
):  # fmt: skip
    """A chunk of the caller's own tokens."""
    for r0 in range(0, rows, TR):
        r = r0 + tl.arange(0, TR)
        t = (chunk * rows + r).to(tl.int32)
        valid = (r < rows) & (t < tokens)
        at, comes = _row_of(
            positions, ids, tl.where(valid, t, most), valid, me, me, most, experts, COMPACT, K
        )
        _keep_rows(out, scales, at, comes, x, t, width, FP8, TR, TC)


@device_function
def _take_tokens(
    out, scales, positions, lists, cells, chunk, most, experts, block, head, words, rows, pitch,
    width, lane, team, row, me, n_pes, ctx, FP8: tl.constexpr, COMPACT: tl.constexpr,
    K: tl.constexpr, PROGRAMS: tl.constexpr, TT: tl.constexpr, TC: tl.constexpr,
):  # fmt: skip
    """A chunk of each other member's tokens, to rows that ``positions`` names, or to its own range."""
    nth = chunk // PROGRAMS
    for k in range(n_pes - 1):
        member = (me + n_pes - 1 - k) % n_pes
        pe = world_pe(team, row, member)
        number = slot_number(block, nth, lane, member, n_pes, PROGRAMS)
        place = slot_again(block, head, words, nth, lane, member, n_pes, PROGRAMS)
        for r0 in range(0, rows, TT):
            r = r0 + tl.arange(0, TT)
            t = (chunk * rows + r).to(tl.int32)
            valid = (r < rows) & (t < most)
            at, comes = _row_of(
                positions, lists + member * cells, tl.where(valid, t, most), valid, member, me, most,
                experts, COMPACT, K,
            )  # fmt: skip
            if r0 == 0:
                await_slot(block, head, words, nth, lane, member, pe, n_pes, PROGRAMS, ctx)
            take_rows(out, scales, at, comes, place, r, pitch, width, FP8, TC)
        free_slot(block, number, lane, me, pe, n_pes, PROGRAMS, ctx)


@device_function
def call_of(lists, lists_head, cells, experts, ctx, TEAM: tl.constexpr):
    """Row of the team, the caller's place in it, its first expert, number and lists of the call."""
    row = team_row(TEAM, ALLTOALL, ctx)
    me, n_pes = place_in(TEAM, row, ctx)
    first = (me * experts).to(tl.int32)
    number, base = lists_of_call(lists, lists_head, cells, n_pes)
    return row, me, n_pes, first, number, base


@device_function
def know_lists(
    lists, number, base, cells, ids, tokens, most, experts, lane, row, me, n_pes, ctx,
    TEAM: tl.constexpr, K: tl.constexpr, PROGRAMS: tl.constexpr, LISTERS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Throughput: the lists of all members are here when it returns."""
    send_lists(
        lists, number, base, cells, ids, tokens * K, most * K, most * K, experts * n_pes, lane, TEAM,
        row, me, n_pes, ctx, K, PROGRAMS, LISTERS, BLOCK, False, True,
    )  # fmt: skip
    await_lists(lists, number, most * K, n_pes, ctx, PROGRAMS, LISTERS, BLOCK)


@device_function
def know_rows(
    positions, counts, words_out, lists, number, base, cells, ids, tokens, most, first, experts, lane,
    row, me, n_pes, ctx, TEAM: tl.constexpr, K: tl.constexpr, KP: tl.constexpr, PROGRAMS: tl.constexpr,
    LISTERS: tl.constexpr, BLOCK: tl.constexpr, TB: tl.constexpr, TN: tl.constexpr, EP: tl.constexpr,
):  # fmt: skip
    """Throughput, half of the programs: the rows of all tokens are in ``positions`` when it returns."""
    know_lists(
        lists, number, base, cells, ids, tokens, most, experts, lane, row, me, n_pes, ctx, TEAM, K,
        PROGRAMS, LISTERS, BLOCK,
    )  # fmt: skip
    lay_out_rows(
        positions, counts, words_out, lists, number, base, cells, n_pes, most, first, experts, lane,
        ctx, PROGRAMS, PROGRAMS, K, KP, TB, TN, EP,
    )  # fmt: skip
    await_rows(lists, number, lane, ctx, PROGRAMS, PROGRAMS)


@triton.jit(do_not_specialize=["tokens", "most"])
def lay_out_experts(
    rows_of, pairs, offsets, counts, words_out, ids, tokens, most, experts, lists, lists_head, cells,
    ctx, TEAM: tl.constexpr, K: tl.constexpr, KP: tl.constexpr, PROGRAMS: tl.constexpr,
    LISTERS: tl.constexpr, BLOCK: tl.constexpr, TB: tl.constexpr, TN: tl.constexpr, EP: tl.constexpr,
):  # fmt: skip
    """Throughput, the layout alone: behind ``counts`` it leaves positions for ``dispatch_tokens``."""
    row, me, n_pes, first, number, base = call_of(lists, lists_head, cells, experts, ctx, TEAM)
    lane = tl.program_id(0)
    know_lists(
        lists, number, base, cells, ids, tokens, most, experts, lane, row, me, n_pes, ctx, TEAM, K,
        PROGRAMS, LISTERS, BLOCK,
    )  # fmt: skip
    lay_out_rows(
        counts + 2 * PROGRAMS * EP, counts, words_out, lists, number, base, cells, n_pes, most, first,
        experts, lane, ctx, 2 * PROGRAMS, PROGRAMS, K, KP, TB, TN, EP,
    )  # fmt: skip
    lay_out_pairs(
        rows_of, pairs, offsets, counts, lists, number, base, cells, (n_pes * most).to(tl.int32), most,
        first, experts, lane, ctx, 2 * PROGRAMS, PROGRAMS, True, K, KP, TB, EP,
    )  # fmt: skip
    end_lists(lists, number)


@device_function
def _receive_tokens(
    out, scales, positions, x, ids, tokens, most, experts, block, head, words, chunks, rows, pitch,
    width, team, row, me, n_pes, ctx, FP8: tl.constexpr, K: tl.constexpr, PROGRAMS: tl.constexpr,
    TR: tl.constexpr, TT: tl.constexpr, TC: tl.constexpr,
):  # fmt: skip
    """Throughput: the chunks of a program that receives, the caller's own and the others'."""
    lane = tl.program_id(0) - PROGRAMS
    for chunk in range(lane, chunks, PROGRAMS):
        keep_tokens(
            out, scales, positions, x, ids, tokens, chunk, rows, most, experts, width, me, n_pes, FP8,
            True, K, TR, TC,
        )  # fmt: skip
        _take_tokens(
            out, scales, positions, positions, 0, chunk, most, experts, block, head, words, rows, pitch,
            width, lane, team, row, me, n_pes, ctx, FP8, True, K, PROGRAMS, TT, TC,
        )  # fmt: skip
    close_others(block, TAKEN, lane, me, n_pes, chunks, PROGRAMS)


@triton.jit(do_not_specialize=["tokens", "most", "chunks"])
def dispatch_tokens(
    out, scales, positions, x, ids, tokens, most, experts, block, head, words, chunks, rows, pitch,
    width, ctx, TEAM: tl.constexpr, FP8: tl.constexpr, ALL: tl.constexpr, K: tl.constexpr,
    PROGRAMS: tl.constexpr, TR: tl.constexpr, TT: tl.constexpr, TC: tl.constexpr,
):  # fmt: skip
    """Throughput, tokens alone: to where ``positions`` says."""
    row = team_row(TEAM, ALLTOALL, ctx)
    me, n_pes = place_in(TEAM, row, ctx)
    if tl.program_id(0) < PROGRAMS:
        _send_tokens(
            x, ids, tokens, experts, block, head, words, chunks, rows, pitch, width, TEAM, row, me,
            n_pes, ctx, FP8, ALL, K, PROGRAMS, TR, TC,
        )  # fmt: skip
    else:
        _receive_tokens(
            out, scales, positions, x, ids, tokens, most, experts, block, head, words, chunks, rows,
            pitch, width, TEAM, row, me, n_pes, ctx, FP8, K, PROGRAMS, TR, TT, TC,
        )  # fmt: skip


@triton.jit(do_not_specialize=["tokens", "most", "chunks"])
def dispatch_at_once(
    out, scales, rows_of, pairs, offsets, counts, words_out, x, ids, tokens, most, experts, lists,
    lists_head, cells, block, head, words, chunks, rows, pitch, width, ctx, TEAM: tl.constexpr,
    FP8: tl.constexpr, ALL: tl.constexpr, K: tl.constexpr, KP: tl.constexpr, PROGRAMS: tl.constexpr,
    LISTERS: tl.constexpr, BLOCK: tl.constexpr, TB: tl.constexpr, TN: tl.constexpr, EP: tl.constexpr,
    TR: tl.constexpr, TT: tl.constexpr, TC: tl.constexpr,
):  # fmt: skip
    """Throughput, one kernel: the slots fill while who receives lays out rows; who sends, pairs last.

    Tokens beyond ``most`` stay: the host is told, and calls again.
    """
    row, me, n_pes, first, number, base = call_of(lists, lists_head, cells, experts, ctx, TEAM)
    few, positions = tl.minimum(tokens, most), counts + 2 * PROGRAMS * EP
    if tl.program_id(0) < PROGRAMS:
        _send_tokens(
            x, ids, few, experts, block, head, words, chunks, rows, pitch, width, TEAM, row, me, n_pes,
            ctx, FP8, ALL, K, PROGRAMS, TR, TC,
        )  # fmt: skip
        lay_out_pairs(
            rows_of, pairs, offsets, counts, lists, number, base, cells, (n_pes * most).to(tl.int32),
            most, first, experts, tl.program_id(0), ctx, PROGRAMS, PROGRAMS, True, K, KP, TB, EP,
        )  # fmt: skip
    else:
        lane = tl.program_id(0) - PROGRAMS
        know_rows(
            positions, counts, words_out, lists, number, base, cells, ids, tokens, most, first, experts,
            lane, row, me, n_pes, ctx, TEAM, K, KP, PROGRAMS, LISTERS, BLOCK, TB, TN, EP,
        )  # fmt: skip
        _receive_tokens(
            out, scales, positions, x, ids, few, most, experts, block, head, words, chunks, rows, pitch,
            width, TEAM, row, me, n_pes, ctx, FP8, K, PROGRAMS, TR, TT, TC,
        )  # fmt: skip
    end_lists(lists, number)


@triton.jit(do_not_specialize=["tokens", "most", "chunks"])
def dispatch_decode(
    out, scales, rows_of, pairs, offsets, counts, x, ids, tokens, most, experts, lists, lists_head,
    cells, block, head, words, chunks, rows, pitch, width, ctx, TEAM: tl.constexpr, FP8: tl.constexpr,
    ALL: tl.constexpr, K: tl.constexpr, KP: tl.constexpr, PROGRAMS: tl.constexpr, LISTERS: tl.constexpr,
    BLOCK: tl.constexpr, TB: tl.constexpr, TN: tl.constexpr, EP: tl.constexpr, TO: tl.constexpr,
    TR: tl.constexpr, TT: tl.constexpr, TC: tl.constexpr,
):  # fmt: skip
    """Decoding, one kernel: who receives sends the lists first, who sends lays out last."""
    row = team_row(TEAM, ALLTOALL, ctx)
    me, n_pes = place_in(TEAM, row, ctx)
    number, base = lists_of_call(lists, lists_head, cells, n_pes)
    if tl.program_id(0) < PROGRAMS:
        _send_tokens(
            x, ids, tokens, experts, block, head, words, chunks, rows, pitch, width, TEAM, row, me,
            n_pes, ctx, FP8, ALL, K, PROGRAMS, TR, TC,
        )  # fmt: skip
        await_lists(lists, number, most * K, n_pes, ctx, PROGRAMS, LISTERS, BLOCK)
        n_tokens, first = (n_pes * most).to(tl.int32), (me * experts).to(tl.int32)
        if TO > 0:
            lay_out_few(
                rows_of, pairs, offsets, base, cells, n_tokens, most, first, experts, n_tokens * K,
                tl.program_id(0), PROGRAMS, K, KP, TO, TB,
            )  # fmt: skip
        else:
            lay_out(
                rows_of, pairs, offsets, counts, lists, number, base, cells, n_tokens, most, first,
                experts, tl.program_id(0), ctx, PROGRAMS, K, KP, TB, TN, EP,
            )  # fmt: skip
    else:
        lane = tl.program_id(0) - PROGRAMS
        send_lists(
            lists, number, base, cells, ids, tokens * K, most * K, most * K, experts * n_pes, lane, TEAM,
            row, me, n_pes, ctx, K, PROGRAMS, LISTERS, BLOCK, True,
        )  # fmt: skip
        for chunk in range(lane, chunks, PROGRAMS):
            keep_tokens(
                out, scales, offsets, x, ids, tokens, chunk, rows, most, experts, width, me, n_pes,
                FP8, False, K, TR, TC,
            )  # fmt: skip
            if chunk == lane:
                await_lists(lists, number, most * K, n_pes, ctx, PROGRAMS, LISTERS, BLOCK)
            _take_tokens(
                out, scales, offsets, base, cells, chunk, most, experts, block, head, words, rows,
                pitch, width, lane, TEAM, row, me, n_pes, ctx, FP8, False, K, PROGRAMS, TT, TC,
            )  # fmt: skip
        close_others(block, TAKEN, lane, me, n_pes, chunks, PROGRAMS)
    end_lists(lists, number)
