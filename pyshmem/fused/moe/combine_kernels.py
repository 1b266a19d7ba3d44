# SPDX-License-Identifier: BSD-3-Clause
"""The kernel of ``expert_combine``: what experts made of tokens comes back, weighted and summed.

Slots are as in ``dispatch_kernels``: a token has its place whether it comes from that member or not.
Sums of the caller's experts for its own tokens go through none: who receives makes them, then waits.
"""

from typing import NamedTuple

import triton
import triton.language as tl

from ...triton.primitives.backend import device_function
from ...triton.runtime.constants import ALLTOALL
from ...triton.teams import place_in, team_row, world_pe
from ...triton.tile import store
from .._shared.slots_kernels import (
    SENT,
    TAKEN,
    Members,
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
from .routing_kernels import await_lists, end_routing, goes_to, routing_of_call, send_lists


class Sum(NamedTuple):
    """Constants of sums: elements of a token at a time; PAIR: two members; EARLY: wait, then sum."""

    TC: int
    PAIR: bool
    EARLY: bool


@device_function
def weighted(
    y, pairs, weights, c0, width, dtype: tl.constexpr, K: tl.constexpr, TC: tl.constexpr
):  # fmt: skip
    """What the caller's experts made of a token, weighted and added in float32, in the order of k."""
    cols = c0 + tl.arange(0, TC)
    total = tl.zeros([TC], tl.float32)
    for j in tl.static_range(K):
        pair = tl.load(pairs + j).to(tl.int64)
        weight = _as_float(tl.load(weights + j))
        there = cols < tl.where(pair >= 0, width, 0)
        value = tl.load(y + pair * width + cols, mask=there, other=0)
        total += tl.where(pair >= 0, weight, 0.0) * value.to(tl.float32)
    return total.to(dtype)


@device_function
def _as_float(weight):
    """A weight, or the bits of one, in float32."""
    if weight.dtype.is_floating():
        value = weight.to(tl.float32)
    else:
        value = weight.to(tl.float32, bitcast=True)
    return value


@device_function
def has_pair(pairs, K: tl.constexpr):
    """Whether one of the caller's experts has the token."""
    largest = tl.cast(-1, tl.int32)
    for j in tl.static_range(K):
        largest = tl.maximum(largest, tl.load(pairs + j))
    return largest >= 0


@device_function
def _send_sums(
    y, pairs, weights, cells, most, slots, chunks, shape, members, ctx, CALL: tl.constexpr,
    SUM: tl.constexpr,
):  # fmt: skip
    """What the caller's experts made of the other members' tokens."""
    TEAM: tl.constexpr = CALL.TEAM
    K: tl.constexpr = CALL.K
    PROGRAMS: tl.constexpr = CALL.PROGRAMS
    TC: tl.constexpr = SUM.TC
    rows, pitch, width = shape
    row, me, n_pes = members
    program = tl.program_id(0)
    dtype: tl.constexpr = y.dtype.element_ty
    for chunk in range(program, chunks, PROGRAMS):
        nth = chunk // PROGRAMS
        for k in range(n_pes - 1):
            member = (me + 1 + k) % n_pes
            pe = world_pe(TEAM, row, member)
            number, place = next_slot(*slots, nth, program, me, member, n_pes, PROGRAMS)
            waits = tl.cast(1, tl.int32)
            for r in range(rows):
                t = tl.cast(chunk * rows + r, tl.int64)
                if t < most:
                    first = pairs + (member * most + t) * K
                    if has_pair(first, K):
                        weight = weights + member * cells + t * K
                        for c0 in range(0, width, TC):
                            cols = c0 + tl.arange(0, TC)
                            total = weighted(y, first, weight, c0, width, dtype, K, TC)
                            if waits != 0:
                                await_free(
                                    slots.block, number, program, member, pe, n_pes, PROGRAMS, ctx
                                )
                            waits = tl.cast(0, tl.int32)
                            at = slot_rows(place, r, pitch, dtype) + cols
                            store(at, total, pe, ctx, mask=cols < width)
            if waits != 0:
                await_free(slots.block, number, program, member, pe, n_pes, PROGRAMS, ctx)
            send_slot(slots.block, number, program, me, pe, n_pes, PROGRAMS, ctx)
    close_others(slots.block, SENT, program, me, n_pes, chunks, PROGRAMS)


@device_function
def _await_sums(slots, nth, program, members, ctx, CALL: tl.constexpr):
    """A chunk's slots of all other members are full when it returns."""
    TEAM: tl.constexpr = CALL.TEAM
    PROGRAMS: tl.constexpr = CALL.PROGRAMS
    row, me, n_pes = members
    for k in range(n_pes - 1):
        member = (me + n_pes - 1 - k) % n_pes
        pe = world_pe(TEAM, row, member)
        await_slot(*slots, nth, program, member, pe, n_pes, PROGRAMS, ctx)


@device_function
def _sent(
    ids, t, experts, member, slots, nth, program, r, cols, shape, n_pes, dtype: tl.constexpr,
    CALL: tl.constexpr,
):  # fmt: skip
    """What another member has sent for a token; 0 if it has no expert of it."""
    K: tl.constexpr = CALL.K
    PROGRAMS: tl.constexpr = CALL.PROGRAMS
    place = slot_again(*slots, nth, program, member, n_pes, PROGRAMS)
    sent = goes_to(member, ids, t, t + 1, experts, K)
    there = cols < tl.where(sent, shape.width, 0)
    return tl.load(slot_rows(place, r, shape.pitch, dtype) + cols, mask=there, other=0)


@device_function
def _total(
    own, ids, t, experts, slots, nth, program, r, cols, shape, members, dtype: tl.constexpr,
    CALL: tl.constexpr,
):  # fmt: skip
    """A token's sums of all members, added in float32 in PE order."""
    _, me, n_pes = members
    total = tl.zeros(own.shape, tl.float32)
    for member in range(n_pes):
        value = own
        if member != me:
            value = _sent(
                ids, t, experts, member, slots, nth, program, r, cols, shape, n_pes, dtype, CALL
            )
        total += value.to(tl.float32)
    return total


@device_function
def _add_sums(
    out, y, pairs, weights, ids, tokens, most, experts, slots, chunks, shape, members, ctx,
    CALL: tl.constexpr, SUM: tl.constexpr,
):  # fmt: skip
    """The members' sums of each token, added in float32 in PE order; the caller's own is made here.

    With many chunks it waits first, for then the slots have long been full; else with its own sum made.
    """
    TEAM: tl.constexpr = CALL.TEAM
    K: tl.constexpr = CALL.K
    PROGRAMS: tl.constexpr = CALL.PROGRAMS
    TC: tl.constexpr = SUM.TC
    PAIR: tl.constexpr = SUM.PAIR
    EARLY: tl.constexpr = SUM.EARLY
    rows, _, width = shape
    row, me, n_pes = members
    program = tl.program_id(0) - PROGRAMS
    dtype: tl.constexpr = out.dtype.element_ty
    for chunk in range(program, chunks, PROGRAMS):
        nth = chunk // PROGRAMS
        waits = tl.cast(1, tl.int32)
        if EARLY:
            _await_sums(slots, nth, program, members, ctx, CALL)
        for r in range(rows):
            t = tl.cast(chunk * rows + r, tl.int32)
            if t < tokens:
                for c0 in range(0, width, TC):
                    cols = c0 + tl.arange(0, TC)
                    if EARLY and PAIR:  # on its way while the own sum is made
                        value = _sent(
                            ids, t, experts, 1 - me, slots, nth, program, r, cols, shape, n_pes, dtype,
                            CALL,
                        )  # fmt: skip
                    own = weighted(
                        y, pairs + (me * most + t) * K, weights + t.to(tl.int64) * K, c0, width, dtype,
                        K, TC,
                    )  # fmt: skip
                    if not EARLY:
                        if waits != 0:
                            _await_sums(slots, nth, program, members, ctx, CALL)
                        waits = tl.cast(0, tl.int32)
                    if EARLY and PAIR:  # the sum of two is the same in both orders
                        total = own.to(tl.float32) + value.to(tl.float32) + 0.0
                    else:
                        total = _total(
                            own, ids, t, experts, slots, nth, program, r, cols, shape, members, dtype,
                            CALL,
                        )  # fmt: skip
                    tl.store(
                        out + t.to(tl.int64) * width + cols, total.to(dtype), mask=cols < width
                    )
        if not EARLY:
            if waits != 0:
                _await_sums(slots, nth, program, members, ctx, CALL)
        for k in range(n_pes - 1):
            member = (me + n_pes - 1 - k) % n_pes
            number = slot_number(slots.block, nth, program, member, n_pes, PROGRAMS)
            pe = world_pe(TEAM, row, member)
            free_slot(slots.block, number, program, me, pe, n_pes, PROGRAMS, ctx)
    close_others(slots.block, TAKEN, program, me, n_pes, chunks, PROGRAMS)


@triton.jit(do_not_specialize=["tokens", "most", "chunks"])
def combine_tokens(
    out, y, pairs, weights, ids, tokens, most, experts, table, slots, chunks, shape, ctx,
    CALL: tl.constexpr, SUM: tl.constexpr,
):  # fmt: skip
    """Both modes: weights go to the experts, sums come back."""
    TEAM: tl.constexpr = CALL.TEAM
    K: tl.constexpr = CALL.K
    PROGRAMS: tl.constexpr = CALL.PROGRAMS
    row = team_row(TEAM, ALLTOALL, ctx)
    me, n_pes = place_in(TEAM, row, ctx)
    members = Members(row, me, n_pes)
    routing = routing_of_call(table, n_pes)
    program = tl.program_id(0)
    if program >= PROGRAMS:
        send_lists(
            routing, weights, tokens * K, tokens * K, most * K, 0, program - PROGRAMS, members, ctx,
            CALL, False,
        )  # fmt: skip
        _add_sums(
            out, y, pairs, weights, ids, tokens, most, experts, slots, chunks, shape, members, ctx,
            CALL, SUM,
        )  # fmt: skip
    else:
        await_lists(routing, most * K, n_pes, ctx, CALL)
        _send_sums(
            y,
            pairs,
            routing.base,
            routing.cells,
            most,
            slots,
            chunks,
            shape,
            members,
            ctx,
            CALL,
            SUM,
        )
    end_routing(routing)
