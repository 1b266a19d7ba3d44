# SPDX-License-Identifier: BSD-3-Clause
"""Kernels of ``expert_dispatch`` and ``expert_combine``: tokens go to their experts, sums come back.

Tokens travel in chunks of ``rows`` tokens of a member, through slots; a token has its place in the slot
whether it goes to that member or not, and is stored only if it does.
"""

import triton
import triton.language as tl

from ..triton.chosen import device_function
from ..triton.teams import place_in, team_row, world_pe
from ..triton.tile import store
from ..triton.words import ALLTOALL
from .experts_lists import await_lists, end_lists, lay_out, lists_of_call, send_lists
from .fp8_kernels import FP8_MAX, to_fp8
from .slots_kernels import (
    SENT,
    TAKEN,
    await_slot,
    close_all,
    free_slot,
    open_slot,
    send_slot,
    slot_again,
    slot_number,
)

_GROUP = tl.constexpr(128)  # elements with one scale


@device_function
def _members_of(ids, t, tokens, experts, n_experts, K: tl.constexpr):
    """A bit for each member that has an expert of token ``t``."""
    found = tl.cast(0, tl.int64)
    for j in tl.static_range(K):
        expert = tl.load(ids + t.to(tl.int64) * K + j, mask=t < tokens, other=-1).to(tl.int64)
        real = (expert >= 0) & (expert < n_experts)
        bit = tl.cast(1, tl.int64) << (tl.where(real, expert, 0) // experts)
        found |= tl.where(real, bit, 0)
    return found


@device_function
def _row(place, r, pitch, dtype: tl.constexpr):
    """Where row ``r`` of a slot starts."""
    return (place.to(tl.pointer_type(tl.uint8)) + r * pitch).to(tl.pointer_type(dtype))


@device_function
def _send_row(x, t, place, r, pitch, width, pe, ctx, FP8: tl.constexpr, TC: tl.constexpr):
    """A token into its place of a slot on ``pe``; as FP8 its scales are behind it."""
    cols = tl.arange(0, TC)
    for c0 in range(0, width, TC):
        inside = c0 + cols < width
        value = tl.load(x + t.to(tl.int64) * width + (c0 + cols), mask=inside, other=0)
        if FP8:
            groups = tl.reshape(value.to(tl.float32), [TC // _GROUP, _GROUP])
            scale = tl.maximum(tl.max(tl.abs(groups), 1), 1e-10) / FP8_MAX
            bits = to_fp8(tl.reshape(groups / scale[:, None], [TC])).to(tl.uint8, bitcast=True)
            store(_row(place, r, pitch, tl.uint8) + (c0 + cols), bits, pe, ctx, mask=inside)
            scales = _row(place, r, pitch, tl.uint8) + width
            at = c0 // _GROUP + tl.arange(0, TC // _GROUP)
            store(
                scales.to(tl.pointer_type(tl.float32)) + at,
                scale,
                pe,
                ctx,
                mask=at < width // _GROUP,
            )
        else:
            dtype: tl.constexpr = x.dtype.element_ty
            store(_row(place, r, pitch, dtype) + (c0 + cols), value, pe, ctx, mask=inside)


@device_function
def _take_row(out, scales, at, place, r, pitch, width, FP8: tl.constexpr, TC: tl.constexpr):
    """The other way round."""
    cols = tl.arange(0, TC)
    source = _row(place, r, pitch, out.dtype.element_ty)
    for c0 in range(0, width, TC):
        inside = c0 + cols < width
        value = tl.load(source + (c0 + cols), mask=inside)
        tl.store(out + at.to(tl.int64) * width + (c0 + cols), value, mask=inside)
    if FP8:
        there = (_row(place, r, pitch, tl.uint8) + width).to(tl.pointer_type(tl.float32))
        for c0 in range(0, width // _GROUP, TC):
            inside = c0 + cols < width // _GROUP
            scale = tl.load(there + (c0 + cols), mask=inside)
            at_scale = scales + at.to(tl.int64) * (width // _GROUP)
            tl.store(at_scale + (c0 + cols), scale, mask=inside)


@device_function
def _send_tokens(
    x, ids, tokens, experts, n_experts, block, head, words, chunks, rows, pitch, width, team, row, me,
    n_pes, ctx, FP8: tl.constexpr, K: tl.constexpr, PROGRAMS: tl.constexpr, TC: tl.constexpr,
):  # fmt: skip
    lane = tl.program_id(0)
    for chunk in range(lane, chunks, PROGRAMS):
        for k in range(n_pes):
            member = (me + 1 + k) % n_pes
            pe = world_pe(team, row, member)
            number, place = open_slot(
                block, head, words, chunk // PROGRAMS, lane, me, member, pe, n_pes, PROGRAMS, ctx
            )
            for r in range(rows):
                t = tl.cast(chunk * rows + r, tl.int32)
                to = _members_of(ids, t, tokens, experts, n_experts, K)
                if (to >> member) & 1 != 0:
                    _send_row(x, t, place, r, pitch, width, pe, ctx, FP8, TC)
            send_slot(block, number, lane, me, pe, n_pes, PROGRAMS, ctx)
    close_all(block, SENT, lane, n_pes, chunks, PROGRAMS)


@device_function
def _take_tokens(
    out, scales, positions, lists, cells, most, experts, block, head, words, chunks, rows, pitch, width,
    team, row, me, n_pes, ctx, FP8: tl.constexpr, COMPACT: tl.constexpr, K: tl.constexpr,
    PROGRAMS: tl.constexpr, TC: tl.constexpr,
):  # fmt: skip
    """Tokens to their rows: those that ``positions`` names, or of each member its own range."""
    lane = tl.program_id(0) - PROGRAMS
    for chunk in range(lane, chunks, PROGRAMS):
        for k in range(n_pes):
            member = (me + n_pes - 1 - k) % n_pes
            pe = world_pe(team, row, member)
            number, place = await_slot(
                block, head, words, chunk // PROGRAMS, lane, member, pe, n_pes, PROGRAMS, ctx
            )
            for r in range(rows):
                t = tl.cast(chunk * rows + r, tl.int32)
                at = (member * most + t).to(tl.int32)
                if COMPACT:
                    at = tl.load(positions + at, mask=t < most, other=-1)
                else:
                    list_of = lists + member * cells
                    to = _members_of(list_of, t, most, experts, experts * n_pes, K)
                    at = tl.where((to >> me) & 1 != 0, at, -1)
                if at >= 0:
                    _take_row(out, scales, at, place, r, pitch, width, FP8, TC)
            free_slot(block, number, lane, me, pe, n_pes, PROGRAMS, ctx)
    close_all(block, TAKEN, lane, n_pes, chunks, PROGRAMS)


@triton.jit
def lay_out_experts(
    rows_of, pairs, positions, offsets, ids, elems, lists, lists_head, cells, most, experts,
    segments, ctx, TEAM: tl.constexpr, K: tl.constexpr, KP: tl.constexpr, PROGRAMS: tl.constexpr,
    LISTERS: tl.constexpr, BLOCK: tl.constexpr, TB: tl.constexpr,
):  # fmt: skip
    """Throughput, first kernel: lists are exchanged, and what they mean for the caller's experts."""
    row = team_row(TEAM, ALLTOALL, ctx)
    me, n_pes = place_in(TEAM, row, ctx)
    number, base = lists_of_call(lists, lists_head, cells, n_pes)
    send_lists(
        lists, number, base, cells, ids, elems, most * K, experts * n_pes, TEAM, row, me, n_pes, ctx,
        PROGRAMS, LISTERS, BLOCK, False,
    )  # fmt: skip
    await_lists(lists, number, n_pes, ctx, PROGRAMS, LISTERS)
    lay_out(
        rows_of, pairs, positions, offsets, base, cells, (n_pes * most).to(tl.int32), most,
        (me * experts).to(tl.int32), experts, 0, segments, tl.program_id(0), 2 * PROGRAMS, True, K, KP,
        TB,
    )  # fmt: skip
    end_lists(lists, number)


@triton.jit
def dispatch_tokens(
    out, scales, positions, x, ids, tokens, most, experts, block, head, words, chunks, rows, pitch,
    width, ctx, TEAM: tl.constexpr, FP8: tl.constexpr, K: tl.constexpr, PROGRAMS: tl.constexpr,
    TC: tl.constexpr,
):  # fmt: skip
    """Throughput, second kernel: tokens go to the rows that the first one has found for them."""
    row = team_row(TEAM, ALLTOALL, ctx)
    me, n_pes = place_in(TEAM, row, ctx)
    if tl.program_id(0) < PROGRAMS:
        _send_tokens(
            x, ids, tokens, experts, experts * n_pes, block, head, words, chunks, rows, pitch, width,
            TEAM, row, me, n_pes, ctx, FP8, K, PROGRAMS, TC,
        )  # fmt: skip
    else:
        _take_tokens(
            out, scales, positions, positions, 0, most, experts, block, head, words, chunks, rows, pitch,
            width, TEAM, row, me, n_pes, ctx, FP8, True, K, PROGRAMS, TC,
        )  # fmt: skip


@triton.jit
def dispatch_decode(
    out, scales, rows_of, pairs, positions, offsets, x, ids, tokens, most, experts, lists, lists_head,
    cells, segments, block, head, words, chunks, rows, pitch, width, ctx, TEAM: tl.constexpr,
    FP8: tl.constexpr, K: tl.constexpr, KP: tl.constexpr, PROGRAMS: tl.constexpr,
    LISTERS: tl.constexpr, BLOCK: tl.constexpr, TB: tl.constexpr, TC: tl.constexpr,
):  # fmt: skip
    """Decoding, one kernel: who receives lays out while the tokens are on their way."""
    row = team_row(TEAM, ALLTOALL, ctx)
    me, n_pes = place_in(TEAM, row, ctx)
    number, base = lists_of_call(lists, lists_head, cells, n_pes)
    if tl.program_id(0) < PROGRAMS:
        send_lists(
            lists, number, base, cells, ids, tokens * K, most * K, experts * n_pes, TEAM, row, me, n_pes,
            ctx, PROGRAMS, LISTERS, BLOCK, True,
        )  # fmt: skip
        _send_tokens(
            x, ids, tokens, experts, experts * n_pes, block, head, words, chunks, rows, pitch, width,
            TEAM, row, me, n_pes, ctx, FP8, K, PROGRAMS, TC,
        )  # fmt: skip
    else:
        await_lists(lists, number, n_pes, ctx, PROGRAMS, LISTERS)
        lay_out(
            rows_of, pairs, positions, offsets, base, cells, (n_pes * most).to(tl.int32), most,
            (me * experts).to(tl.int32), experts, (n_pes * most * K).to(tl.int32), segments,
            tl.program_id(0) - PROGRAMS, PROGRAMS, False, K, KP, TB,
        )  # fmt: skip
        _take_tokens(
            out, scales, positions, base, cells, most, experts, block, head, words, chunks, rows, pitch,
            width, TEAM, row, me, n_pes, ctx, FP8, False, K, PROGRAMS, TC,
        )  # fmt: skip
    end_lists(lists, number)


@device_function
def _send_sums(
    y, pairs, weights, cells, most, block, head, words, chunks, rows, pitch, width, team, row, me,
    n_pes, ctx, K: tl.constexpr, PROGRAMS: tl.constexpr, TC: tl.constexpr,
):  # fmt: skip
    """What the caller's experts made of each token, weighted and added in float32, in the order of k."""
    lane, cols = tl.program_id(0), tl.arange(0, TC)
    dtype: tl.constexpr = y.dtype.element_ty
    for chunk in range(lane, chunks, PROGRAMS):
        for k in range(n_pes):
            member = (me + 1 + k) % n_pes
            pe = world_pe(team, row, member)
            number, place = open_slot(
                block, head, words, chunk // PROGRAMS, lane, me, member, pe, n_pes, PROGRAMS, ctx
            )
            for r in range(rows):
                t = tl.cast(chunk * rows + r, tl.int64)
                first = pairs + (member * most + t) * K
                most_found = tl.cast(-1, tl.int32)
                for j in tl.static_range(K):
                    most_found = tl.maximum(most_found, tl.load(first + j, mask=t < most, other=-1))
                if most_found >= 0:
                    for c0 in range(0, width, TC):
                        inside = c0 + cols < width
                        total = tl.zeros([TC], tl.float32)
                        for j in tl.static_range(K):
                            pair = tl.load(first + j).to(tl.int64)
                            bits = tl.load(weights + member * cells + t * K + j)
                            weight = tl.where(pair >= 0, bits.to(tl.float32, bitcast=True), 0.0)
                            there = c0 + cols < tl.where(pair >= 0, width, 0)
                            value = tl.load(y + pair * width + (c0 + cols), mask=there, other=0)
                            total += weight * value.to(tl.float32)
                        at = _row(place, r, pitch, dtype) + (c0 + cols)
                        store(at, total.to(dtype), pe, ctx, mask=inside)
            send_slot(block, number, lane, me, pe, n_pes, PROGRAMS, ctx)
    close_all(block, SENT, lane, n_pes, chunks, PROGRAMS)


@device_function
def _add_sums(
    out, ids, tokens, experts, block, head, words, chunks, rows, pitch, width, team, row, me, n_pes,
    ctx, K: tl.constexpr, PROGRAMS: tl.constexpr, TC: tl.constexpr,
):  # fmt: skip
    """The members' sums of each token, added in float32 in PE order."""
    lane, cols = tl.program_id(0) - PROGRAMS, tl.arange(0, TC)
    dtype: tl.constexpr = out.dtype.element_ty
    for chunk in range(lane, chunks, PROGRAMS):
        nth = chunk // PROGRAMS
        for member in range(n_pes):
            pe = world_pe(team, row, member)
            await_slot(block, head, words, nth, lane, member, pe, n_pes, PROGRAMS, ctx)
        for r in range(rows):
            t = tl.cast(chunk * rows + r, tl.int32)
            if t < tokens:
                to = _members_of(ids, t, tokens, experts, experts * n_pes, K)
                for c0 in range(0, width, TC):
                    inside = c0 + cols < width
                    total = tl.zeros([TC], tl.float32)
                    for member in range(n_pes):
                        place = slot_again(block, head, words, nth, lane, member, n_pes, PROGRAMS)
                        sent = c0 + cols < tl.where((to >> member) & 1 != 0, width, 0)
                        value = tl.load(
                            _row(place, r, pitch, dtype) + (c0 + cols), mask=sent, other=0
                        )
                        total += value.to(tl.float32)
                    at = out + t.to(tl.int64) * width + (c0 + cols)
                    tl.store(at, total.to(dtype), mask=inside)
        for member in range(n_pes):
            number = slot_number(block, nth, lane, member, n_pes, PROGRAMS)
            pe = world_pe(team, row, member)
            free_slot(block, number, lane, me, pe, n_pes, PROGRAMS, ctx)
    close_all(block, TAKEN, lane, n_pes, chunks, PROGRAMS)


@triton.jit
def combine_tokens(
    out, y, pairs, weights, ids, tokens, most, experts, lists, lists_head, cells, block, head, words,
    chunks, rows, pitch, width, ctx, TEAM: tl.constexpr, K: tl.constexpr, PROGRAMS: tl.constexpr,
    LISTERS: tl.constexpr, BLOCK: tl.constexpr, TC: tl.constexpr,
):  # fmt: skip
    """Both modes: weights go to the experts, sums come back."""
    row = team_row(TEAM, ALLTOALL, ctx)
    me, n_pes = place_in(TEAM, row, ctx)
    number, base = lists_of_call(lists, lists_head, cells, n_pes)
    if tl.program_id(0) < PROGRAMS:
        send_lists(
            lists, number, base, cells, weights, tokens * K, tokens * K, 0, TEAM, row, me, n_pes, ctx,
            PROGRAMS, LISTERS, BLOCK, False,
        )  # fmt: skip
        await_lists(lists, number, n_pes, ctx, PROGRAMS, LISTERS)
        _send_sums(
            y, pairs, base, cells, most, block, head, words, chunks, rows, pitch, width, TEAM, row, me,
            n_pes, ctx, K, PROGRAMS, TC,
        )  # fmt: skip
    else:
        _add_sums(
            out, ids, tokens, experts, block, head, words, chunks, rows, pitch, width, TEAM, row, me,
            n_pes, ctx, K, PROGRAMS, TC,
        )  # fmt: skip
    end_lists(lists, number)
