# SPDX-License-Identifier: BSD-3-Clause
"""What members store for each other in a step that may go on without some, and what is taken from it.

A member stores into its own part of the receiver's block: rows, and behind them the lists of experts
and of weights. There are no flags: kernels on both sides of ``end_operation`` store and take. Parts are
in two halves, for the parities of operations; see ``agreement_kernels``.
"""

from typing import Any, NamedTuple

import triton
import triton.language as tl

from ....triton.primitives.backend import device_function
from ....triton.teams import world_pe
from ....triton.tile import store
from ..._shared.slots_kernels import slot_rows
from ...formats.block_kernels import load_global_scale
from ..combine_kernels import has_pair, weighted
from ..dispatch_kernels import keep_rows, made_rows, store_rows, take_rows, width_of
from ..routing_kernels import Routing, as_cells, goes_to, lay_out_few
from .agreement_kernels import is_absent, members_of, next_operation, number_in


class Parts(NamedTuple):
    """A block of int64, words of a half and of a part, bytes from row to row, elements of a row."""

    block: Any
    half: Any
    words: Any
    pitch: Any
    width: Any


class Lists(NamedTuple):
    """Experts, and bits of weights, of all members' tokens, int32."""

    experts: Any
    weights: Any


@device_function
def _part(parts, plan, source):
    """Where the part of a member is, for the plan's operation."""
    half = (number_in(plan) & 1) * parts.half
    return parts.block + half + tl.cast(source, tl.int64) * parts.words


@device_function
def _lists(parts, plan, source, most, K: tl.constexpr):
    """Where its lists are: experts, and weights as bits of float32."""
    experts = _part(parts, plan, source).to(tl.pointer_type(tl.uint8))
    experts += tl.cast(most, tl.int64) * parts.pitch
    first = experts.to(tl.pointer_type(tl.int32))
    return first, first + most * K


@device_function
def _own_lists(ids, weights, offs, tokens, n_experts, ctx, K: tl.constexpr):
    """The caller's experts and bits of weights at places of its lists, filled up with -1 and 0."""
    named = tl.load(ids + offs, mask=offs < tokens * K, other=-1)
    bits = tl.load(weights + offs, mask=offs < tokens * K, other=0)
    bits = bits.to(tl.float32).to(tl.int32, bitcast=True)
    return as_cells(named, offs, n_experts, ctx, K, True), bits


@device_function
def _send_lists(
    ids, weights, tokens, most, n_experts, parts, plan, members, ctx, CALL: tl.constexpr
):  # fmt: skip
    """To all others that may take part."""
    TEAM: tl.constexpr = CALL.TEAM
    K: tl.constexpr = CALL.K
    BLOCK: tl.constexpr = CALL.BLOCK
    row, me, n_pes = members
    to_experts, to_weights = _lists(parts, plan, me, most, K)
    for first in range(tl.program_id(0) * BLOCK, most * K, tl.num_programs(0) * BLOCK):
        offs = first + tl.arange(0, BLOCK)
        named, bits = _own_lists(ids, weights, offs, tokens, n_experts, ctx, K)
        for k in range(n_pes - 1):
            member = (me + 1 + k) % n_pes
            there = (offs < most * K) & ~is_absent(plan, member)
            pe = world_pe(TEAM, row, member)
            store(to_experts + offs, named, pe, ctx, mask=there)
            store(to_weights + offs, bits, pe, ctx, mask=there)


@triton.jit(do_not_specialize=["tokens", "most"])
def send_tokens(
    given, weights, tokens, most, experts, plan, parts, ctx, CALL: tl.constexpr, TILE: tl.constexpr
):  # fmt: skip
    """Tokens go to the members that have one of their experts, lists to all; absent ones get nothing."""
    TEAM: tl.constexpr = CALL.TEAM
    K: tl.constexpr = CALL.K
    GLOBAL: tl.constexpr = TILE.GLOBAL
    TC: tl.constexpr = TILE.TC
    members, step = members_of(TEAM, ctx), tl.load(plan)
    row, me, n_pes = members
    n_experts = experts * n_pes
    _send_lists(
        given.ids, weights, tokens, most, n_experts, parts, step, members, ctx, CALL
    )  # fmt: skip
    unit = load_global_scale(given.global_scale, GLOBAL)
    place, width = _part(parts, step, me), width_of(parts.width, TILE)
    for t in range(tl.program_id(0), tokens, tl.num_programs(0)):
        r = tl.cast(t, tl.int64) + tl.arange(0, 1)
        for c0 in range(0, width, TC):
            cols = c0 + tl.arange(0, TC)[None, :]
            value = tl.load(given.x + r[:, None] * width + cols, mask=cols < width, other=0)
            made, scale = made_rows(value, unit, TILE)
            for k in range(n_pes - 1):
                member = (me + 1 + k) % n_pes
                goes = goes_to(member, given.ids, r, tokens, experts, K) & ~is_absent(step, member)
                pe = world_pe(TEAM, row, member)
                store_rows(
                    made, scale, goes[:, None], place, r, parts.pitch, width, c0, pe, ctx, TILE
                )  # fmt: skip


@device_function
def _take_lists(
    lists, given, weights, tokens, most, n_experts, parts, plan, members, ctx, CALL: tl.constexpr
):  # fmt: skip
    """Lists of those that take part, -1 and 0 for the others: whatever is in their parts may change.

    The caller's are its own: it may have been left out of the operation that it sent them for.
    """
    K: tl.constexpr = CALL.K
    BLOCK: tl.constexpr = CALL.BLOCK
    to_experts, to_weights = lists
    blocks = (most * K + BLOCK - 1) // BLOCK
    for number in range(tl.program_id(0), blocks * members.n_pes, tl.num_programs(0)):
        source, offs = number // blocks, number % blocks * BLOCK + tl.arange(0, BLOCK)
        inside = offs < most * K
        to = source * most * K + offs
        if source == members.me:
            named, bits = _own_lists(given.ids, weights, offs, tokens, n_experts, ctx, K)
        else:
            of_experts, of_weights = _lists(parts, plan, source, most, K)
            there = inside & ~is_absent(plan, source)
            named = tl.load(of_experts + offs, mask=there, other=-1)
            bits = tl.load(of_weights + offs, mask=there, other=0)
        tl.store(to_experts + to, named, mask=inside)
        tl.store(to_weights + to, bits, mask=inside)


@triton.jit(do_not_specialize=["tokens", "most"])
def take_tokens(
    to, lists, given, weights, tokens, most, experts, plan, parts, ctx, CALL: tl.constexpr,
    TILE: tl.constexpr,
):  # fmt: skip
    """Tokens of those that take part, to their rows, and ``lists``: their experts and weights."""
    TEAM: tl.constexpr = CALL.TEAM
    K: tl.constexpr = CALL.K
    members, step = members_of(TEAM, ctx), tl.load(plan)
    n_experts = experts * members.n_pes
    _take_lists(
        lists, given, weights, tokens, most, n_experts, parts, step, members, ctx, CALL
    )  # fmt: skip
    me, width = members.me, width_of(parts.width, TILE)
    for number in range(tl.program_id(0), most * members.n_pes, tl.num_programs(0)):
        source, t = number // most, number % most
        r = tl.cast(t, tl.int64) + tl.arange(0, 1)
        at = number + tl.arange(0, 1)
        if source == me:
            comes = goes_to(me, given.ids, r, tokens, experts, K)
            keep_rows(to, at, comes, given, r, width, TILE)
        elif ~is_absent(step, source):
            named, _ = _lists(parts, step, source, most, K)
            comes = goes_to(me, named, r, most, experts, K)
            take_rows(to, at, comes, _part(parts, step, source), r, parts.pitch, width, TILE)


@triton.jit(do_not_specialize=["most"])
def lay_out_step(
    made, ids, most, experts, first, n_tokens, CALL: tl.constexpr, LAYOUT: tl.constexpr
):  # fmt: skip
    """Pairs of the caller's experts, from the lists that ``take_tokens`` has left."""
    K: tl.constexpr = CALL.K
    routing = Routing(ids, 0, ids, most * K)
    capacity = n_tokens * K
    lay_out_few(
        made, routing, n_tokens, most, first, experts, capacity, tl.program_id(0), CALL, LAYOUT
    )  # fmt: skip


@triton.jit(do_not_specialize=["most"])
def send_sums(
    y, pairs, weights, most, plan, parts, ctx, CALL: tl.constexpr, TC: tl.constexpr
):  # fmt: skip
    """What the caller's experts made of the others' tokens goes back to those that take part.

    It is stored for the operation behind the plan's.
    """
    TEAM: tl.constexpr = CALL.TEAM
    K: tl.constexpr = CALL.K
    members, step = members_of(TEAM, ctx), tl.load(plan)
    dtype: tl.constexpr = y.dtype.element_ty
    me, width = members.me, parts.width
    place = _part(parts, next_operation(step), me)
    for number in range(tl.program_id(0), most * members.n_pes, tl.num_programs(0)):
        member = number // most
        first = tl.cast(number, tl.int64) * K
        if (member != me) & ~is_absent(step, member):
            if has_pair(pairs + first, K):
                row = slot_rows(place, tl.cast(number % most, tl.int64), parts.pitch, dtype)
                pe = world_pe(TEAM, members.row, member)
                for c0 in range(0, width, TC):
                    cols = c0 + tl.arange(0, TC)
                    total = weighted(y, pairs + first, weights + first, c0, width, dtype, K, TC)
                    store(row + cols, total, pe, ctx, mask=cols < width)


@triton.jit(do_not_specialize=["tokens", "most"])
def add_sums(
    out, y, pairs, weights, ids, tokens, most, experts, plan, parts, ctx, CALL: tl.constexpr,
    TC: tl.constexpr,
):  # fmt: skip
    """The sums of those that take part, added in float32 in PE order; the caller's own is made here."""
    TEAM: tl.constexpr = CALL.TEAM
    K: tl.constexpr = CALL.K
    members, step = members_of(TEAM, ctx), tl.load(plan)
    dtype: tl.constexpr = y.dtype.element_ty
    me, width = members.me, parts.width
    for t in range(tl.program_id(0), tokens, tl.num_programs(0)):
        own = (me * most + t) * K
        r = tl.cast(t, tl.int64)
        for c0 in range(0, width, TC):
            cols = c0 + tl.arange(0, TC)
            total = tl.zeros([TC], tl.float32)
            for member in range(members.n_pes):
                if member == me:
                    value = weighted(y, pairs + own, weights + own, c0, width, dtype, K, TC)
                    total += value.to(tl.float32)
                elif ~is_absent(step, member):
                    sent = goes_to(member, ids, r, tokens, experts, K)
                    there = cols < tl.where(sent, width, 0)
                    row = slot_rows(_part(parts, step, member), r, parts.pitch, dtype)
                    total += tl.load(row + cols, mask=there, other=0).to(tl.float32)
            tl.store(out + r * width + cols, total.to(dtype), mask=cols < width)
