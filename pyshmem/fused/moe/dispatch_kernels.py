# SPDX-License-Identifier: BSD-3-Clause
"""Kernels of ``expert_dispatch``: tokens go to their experts.

Tokens travel in chunks of ``rows`` tokens of a member, through slots; a token has its place in the slot
whether it goes to that member or not, and is stored only if it does. What stays on its PE goes through
no slot: who receives a chunk of the others' tokens copies the same chunk of the caller's meanwhile.
"""

from typing import Any, NamedTuple

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
from ..formats.block_kernels import load_global_scale, quantise_blocks
from .routing_kernels import (
    await_lists,
    await_rows,
    end_routing,
    goes_to,
    lay_out,
    lay_out_few,
    lay_out_pairs,
    lay_out_rows,
    routing_of_call,
    send_lists,
)

_GROUP = tl.constexpr(128)  # elements of FP8 with one scale

# ``tokens``, ``most`` and ``chunks`` change from call to call and stay parameters: Triton compiles anew
# for values in a group. So does ``experts``, which may be 1: in a group made here it would be loaded.


class Dest(NamedTuple):
    """Where tokens go that come: they, and scales of those that are quantised."""

    out: Any
    scales: Any


class Given(NamedTuple):
    """The caller's tokens and their experts, and the global scale of NVFP4, if there is one."""

    x: Any
    ids: Any
    global_scale: Any


class ChunkShape(NamedTuple):
    """Tokens of a chunk, bytes from token to token in a slot, elements of a token."""

    rows: Any
    pitch: Any
    width: Any


class Tile(NamedTuple):
    """Constants of kernels that move tokens: tokens sent and taken at a time, elements of one.

    FORMAT: what tokens are made, "fp8", "mxfp8" or "nvfp4", or "". GLOBAL: there is a global scale. ALL:
    tokens are loaded before it is known whether they go.
    """

    FORMAT: str
    ALL: bool
    TR: int
    TT: int
    TC: int
    GLOBAL: bool = False


@triton.constexpr_function
def group_of(kind):
    """Elements with one scale."""
    return {"mxfp8": 32, "nvfp4": 16}.get(kind, 128)


@triton.constexpr_function
def per_byte(kind):
    """Elements of a byte of tokens; 1 also where tokens are not made bytes."""
    return 2 if kind == "nvfp4" else 1


@triton.constexpr_function
def scale_dtype(kind):
    """That of scales, which stand behind a token in a slot."""
    return tl.float32 if kind == "fp8" else tl.uint8


@device_function
def _quantized(value, unit, TILE: tl.constexpr):
    """Rows as bytes, and their scales; ``unit`` is the global scale."""
    FORMAT: tl.constexpr = TILE.FORMAT
    GLOBAL: tl.constexpr = TILE.GLOBAL
    TR: tl.constexpr = TILE.TR
    TC: tl.constexpr = TILE.TC
    if FORMAT == "fp8":
        return _fp8_rows(value, TR, TC)
    else:
        rows = tl.reshape(value.to(tl.float32), [TR * TC])
        bits, scale = quantise_blocks(rows, unit, FORMAT, GLOBAL)
        bits = tl.reshape(bits, [TR, TC // per_byte(FORMAT)])
        return bits, tl.reshape(scale, [TR, TC // group_of(FORMAT)])


@device_function
def _fp8_rows(value, TR: tl.constexpr, TC: tl.constexpr):
    groups = tl.reshape(value.to(tl.float32), [TR, TC // _GROUP, _GROUP])
    scale = tl.div_rn(tl.maximum(tl.max(tl.abs(groups), 2), 1e-10), FP8_MAX)
    inverse = 1.0 / scale  # a division for each group, not for each element
    bits = to_fp8(tl.reshape(groups * inverse[:, :, None], [TR, TC])).to(tl.uint8, bitcast=True)
    return bits, scale


@device_function
def store_rows(
    value, unit, goes, place, r, pitch, width, c0, pe, ctx, TILE: tl.constexpr
):  # fmt: skip
    """Columns ``c0`` on of tokens into their places of a slot on ``pe``; scales are behind."""
    FORMAT: tl.constexpr = TILE.FORMAT
    TC: tl.constexpr = TILE.TC
    PER: tl.constexpr = per_byte(FORMAT)
    GROUP: tl.constexpr = group_of(FORMAT)
    cols = c0 // PER + tl.arange(0, TC // PER)[None, :]
    dtype: tl.constexpr = tl.uint8 if FORMAT != "" else value.dtype
    row = slot_rows(place, r, pitch, dtype)[:, None]
    if FORMAT != "":
        value, scale = _quantized(value, unit, TILE)
        at = c0 // GROUP + tl.arange(0, TC // GROUP)[None, :]
        scales = (row + width // PER).to(tl.pointer_type(scale_dtype(FORMAT)))
        store(scales + at, scale, pe, ctx, mask=goes & (at < width // GROUP))
    store(row + cols, value, pe, ctx, mask=goes & (cols < width // PER))


@device_function
def take_rows(to, at, comes, place, r, pitch, width, TILE: tl.constexpr):
    """Tokens out of a slot, those that have come, to their rows ``at``."""
    FORMAT: tl.constexpr = TILE.FORMAT
    TC: tl.constexpr = TILE.TC
    PER: tl.constexpr = per_byte(FORMAT)
    GROUP: tl.constexpr = group_of(FORMAT)
    out, scales = to
    comes, at = comes[:, None], at.to(tl.int64)[:, None]
    source = slot_rows(place, r, pitch, out.dtype.element_ty)[:, None]
    span = width // PER
    for c0 in range(0, span, TC // PER):
        cols = c0 + tl.arange(0, TC // PER)[None, :]
        value = tl.load(source + cols, mask=comes & (cols < span))
        tl.store(out + at * span + cols, value, mask=comes & (cols < span))
    if FORMAT != "":
        there = slot_rows(place, r, pitch, tl.uint8)[:, None] + span
        there = there.to(tl.pointer_type(scale_dtype(FORMAT)))
        for c0 in range(0, width // GROUP, TC // GROUP):
            cols = c0 + tl.arange(0, TC // GROUP)[None, :]
            inside = comes & (cols < width // GROUP)
            scale = tl.load(there + cols, mask=inside)
            tl.store(scales + at * (width // GROUP) + cols, scale, mask=inside)


@device_function
def keep_rows(to, at, comes, given, t, width, TILE: tl.constexpr):
    """The caller's own tokens that one of its experts wants, to their rows ``at``."""
    FORMAT: tl.constexpr = TILE.FORMAT
    TC: tl.constexpr = TILE.TC
    PER: tl.constexpr = per_byte(FORMAT)
    GROUP: tl.constexpr = group_of(FORMAT)
    GLOBAL: tl.constexpr = TILE.GLOBAL
    out, scales = to
    unit = load_global_scale(given.global_scale, GLOBAL)
    comes, at = comes[:, None], at.to(tl.int64)[:, None]
    source = given.x + t.to(tl.int64)[:, None] * width
    for c0 in range(0, width, TC):
        cols = c0 + tl.arange(0, TC)[None, :]
        value = tl.load(source + cols, mask=comes & (cols < width), other=0)
        if FORMAT != "":
            value, scale = _quantized(value, unit, TILE)
            group = c0 // GROUP + tl.arange(0, TC // GROUP)[None, :]
            inside = comes & (group < width // GROUP)
            tl.store(scales + at * (width // GROUP) + group, scale, mask=inside)
        cols = c0 // PER + tl.arange(0, TC // PER)[None, :]
        tl.store(out + at * (width // PER) + cols, value, mask=comes & (cols < width // PER))


@device_function
def _send_tokens(
    given, tokens, experts, slots, chunks, shape, members, ctx, CALL: tl.constexpr, TILE: tl.constexpr
):  # fmt: skip
    """Chunks ``program``, ``program + PROGRAMS``, ... go to all other members.

    With ``ALL``, tokens are loaded before it is known whether they go; that a slot is free is waited for
    behind the first load.
    """
    TEAM: tl.constexpr = CALL.TEAM
    K: tl.constexpr = CALL.K
    PROGRAMS: tl.constexpr = CALL.PROGRAMS
    ALL: tl.constexpr = TILE.ALL
    TR: tl.constexpr = TILE.TR
    TC: tl.constexpr = TILE.TC
    GLOBAL: tl.constexpr = TILE.GLOBAL
    x, ids, _ = given
    unit = load_global_scale(given.global_scale, GLOBAL)
    rows, pitch, width = shape
    row, me, n_pes = members
    program = tl.program_id(0)
    for chunk in range(program, chunks, PROGRAMS):
        nth = chunk // PROGRAMS
        for k in range(n_pes - 1):
            member = (me + 1 + k) % n_pes
            pe = world_pe(TEAM, row, member)
            number, place = next_slot(*slots, nth, program, me, member, n_pes, PROGRAMS)
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
                        await_free(slots.block, number, program, member, pe, n_pes, PROGRAMS, ctx)
                    store_rows(value, unit, goes, place, r, pitch, width, c0, pe, ctx, TILE)
            send_slot(slots.block, number, program, me, pe, n_pes, PROGRAMS, ctx)
    close_others(slots.block, SENT, program, me, n_pes, chunks, PROGRAMS)


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
    to, positions, given, tokens, chunk, rows, most, experts, width, me, COMPACT: tl.constexpr,
    K: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """A chunk of the caller's own tokens."""
    TR: tl.constexpr = TILE.TR
    ids = given.ids
    for r0 in range(0, rows, TR):
        r = r0 + tl.arange(0, TR)
        t = (chunk * rows + r).to(tl.int32)
        valid = (r < rows) & (t < tokens)
        at, comes = _row_of(
            positions, ids, tl.where(valid, t, most), valid, me, me, most, experts, COMPACT, K
        )
        keep_rows(to, at, comes, given, t, width, TILE)


@device_function
def _take_tokens(
    to, positions, lists, cells, chunk, most, experts, slots, shape, program, members, ctx,
    COMPACT: tl.constexpr, CALL: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """A chunk of each other member's tokens, to rows that ``positions`` names, or to its own range."""
    TEAM: tl.constexpr = CALL.TEAM
    K: tl.constexpr = CALL.K
    PROGRAMS: tl.constexpr = CALL.PROGRAMS
    TT: tl.constexpr = TILE.TT
    rows, pitch, width = shape
    row, me, n_pes = members
    nth = chunk // PROGRAMS
    for k in range(n_pes - 1):
        member = (me + n_pes - 1 - k) % n_pes
        pe = world_pe(TEAM, row, member)
        number = slot_number(slots.block, nth, program, member, n_pes, PROGRAMS)
        place = slot_again(*slots, nth, program, member, n_pes, PROGRAMS)
        for r0 in range(0, rows, TT):
            r = r0 + tl.arange(0, TT)
            t = (chunk * rows + r).to(tl.int32)
            valid = (r < rows) & (t < most)
            at, comes = _row_of(
                positions, lists + member * cells, tl.where(valid, t, most), valid, member, me, most,
                experts, COMPACT, K,
            )  # fmt: skip
            if r0 == 0:
                await_slot(*slots, nth, program, member, pe, n_pes, PROGRAMS, ctx)
            take_rows(to, at, comes, place, r, pitch, width, TILE)
        free_slot(slots.block, number, program, me, pe, n_pes, PROGRAMS, ctx)


@device_function
def call_of(table, experts, ctx, TEAM: tl.constexpr):
    """The team, the caller's first expert, and the routing table of this call."""
    row = team_row(TEAM, ALLTOALL, ctx)
    me, n_pes = place_in(TEAM, row, ctx)
    return Members(row, me, n_pes), (me * experts).to(tl.int32), routing_of_call(table, n_pes)


@device_function
def know_lists(routing, ids, tokens, most, experts, program, members, ctx, CALL: tl.constexpr):
    """Throughput: the lists of all members are here when it returns."""
    K: tl.constexpr = CALL.K
    n_pes = members.n_pes
    send_lists(
        routing, ids, tokens * K, most * K, most * K, experts * n_pes, program, members, ctx, CALL,
        False, True,
    )  # fmt: skip
    await_lists(routing, most * K, n_pes, ctx, CALL)


@device_function
def know_rows(
    positions, counts, words_out, routing, ids, tokens, most, first, experts, program, members, ctx,
    CALL: tl.constexpr, LAYOUT: tl.constexpr,
):  # fmt: skip
    """Throughput, half of the programs: the rows of all tokens are in ``positions`` when it returns."""
    PROGRAMS: tl.constexpr = CALL.PROGRAMS
    know_lists(routing, ids, tokens, most, experts, program, members, ctx, CALL)
    lay_out_rows(
        positions, counts, words_out, routing, members.n_pes, most, first, experts, program, ctx,
        PROGRAMS, CALL, LAYOUT,
    )  # fmt: skip
    await_rows(routing, program, ctx, PROGRAMS, PROGRAMS)


@triton.jit(do_not_specialize=["tokens", "most"])
def lay_out_experts(
    made, words_out, ids, tokens, most, experts, table, ctx, CALL: tl.constexpr, LAYOUT: tl.constexpr
):  # fmt: skip
    """Throughput, the layout alone: behind ``counts`` it leaves positions for ``dispatch_tokens``."""
    TEAM: tl.constexpr = CALL.TEAM
    PROGRAMS: tl.constexpr = CALL.PROGRAMS
    EP: tl.constexpr = LAYOUT.EP
    members, first, routing = call_of(table, experts, ctx, TEAM)
    n_pes = members.n_pes
    program = tl.program_id(0)
    know_lists(routing, ids, tokens, most, experts, program, members, ctx, CALL)
    lay_out_rows(
        made.counts + 2 * PROGRAMS * EP, made.counts, words_out, routing, n_pes, most, first, experts,
        program, ctx, 2 * PROGRAMS, CALL, LAYOUT,
    )  # fmt: skip
    lay_out_pairs(
        made, routing, (n_pes * most).to(tl.int32), most, first, experts, program, ctx, 2 * PROGRAMS,
        True, CALL, LAYOUT,
    )  # fmt: skip
    end_routing(routing)


@device_function
def _receive_tokens(
    to, positions, given, tokens, most, experts, slots, chunks, shape, members, ctx, CALL: tl.constexpr,
    TILE: tl.constexpr,
):  # fmt: skip
    """Throughput: the chunks of a program that receives, the caller's own and the others'."""
    K: tl.constexpr = CALL.K
    PROGRAMS: tl.constexpr = CALL.PROGRAMS
    rows, _, width = shape
    _, me, n_pes = members
    program = tl.program_id(0) - PROGRAMS
    for chunk in range(program, chunks, PROGRAMS):
        keep_tokens(
            to, positions, given, tokens, chunk, rows, most, experts, width, me, True, K, TILE
        )
        _take_tokens(
            to, positions, positions, 0, chunk, most, experts, slots, shape, program, members, ctx,
            True, CALL, TILE,
        )  # fmt: skip
    close_others(slots.block, TAKEN, program, me, n_pes, chunks, PROGRAMS)


@triton.jit(do_not_specialize=["tokens", "most", "chunks"])
def dispatch_tokens(
    to, positions, given, tokens, most, experts, slots, chunks, shape, ctx, CALL: tl.constexpr,
    TILE: tl.constexpr,
):  # fmt: skip
    """Throughput, tokens alone: to where ``positions`` says."""
    TEAM: tl.constexpr = CALL.TEAM
    PROGRAMS: tl.constexpr = CALL.PROGRAMS
    row = team_row(TEAM, ALLTOALL, ctx)
    me, n_pes = place_in(TEAM, row, ctx)
    members = Members(row, me, n_pes)
    if tl.program_id(0) < PROGRAMS:
        _send_tokens(given, tokens, experts, slots, chunks, shape, members, ctx, CALL, TILE)
    else:
        _receive_tokens(
            to,
            positions,
            given,
            tokens,
            most,
            experts,
            slots,
            chunks,
            shape,
            members,
            ctx,
            CALL,
            TILE,
        )


@triton.jit(do_not_specialize=["tokens", "most", "chunks"])
def dispatch_at_once(
    to, made, words_out, given, tokens, most, experts, table, slots, chunks, shape, ctx,
    CALL: tl.constexpr, TILE: tl.constexpr, LAYOUT: tl.constexpr,
):  # fmt: skip
    """Throughput, one kernel: the slots fill while who receives lays out rows; who sends, pairs last.

    Tokens beyond ``most`` stay: the host is told, and calls again.
    """
    TEAM: tl.constexpr = CALL.TEAM
    PROGRAMS: tl.constexpr = CALL.PROGRAMS
    EP: tl.constexpr = LAYOUT.EP
    members, first, routing = call_of(table, experts, ctx, TEAM)
    few, positions = tl.minimum(tokens, most), made.counts + 2 * PROGRAMS * EP
    if tl.program_id(0) < PROGRAMS:
        _send_tokens(given, few, experts, slots, chunks, shape, members, ctx, CALL, TILE)
        lay_out_pairs(
            made, routing, (members.n_pes * most).to(tl.int32), most, first, experts, tl.program_id(0),
            ctx, PROGRAMS, True, CALL, LAYOUT,
        )  # fmt: skip
    else:
        program = tl.program_id(0) - PROGRAMS
        know_rows(
            positions, made.counts, words_out, routing, given.ids, tokens, most, first, experts, program,
            members, ctx, CALL, LAYOUT,
        )  # fmt: skip
        _receive_tokens(
            to, positions, given, few, most, experts, slots, chunks, shape, members, ctx, CALL, TILE
        )
    end_routing(routing)


@triton.jit(do_not_specialize=["tokens", "most", "chunks"])
def dispatch_decode(
    to, made, given, tokens, most, experts, table, slots, chunks, shape, ctx, CALL: tl.constexpr,
    TILE: tl.constexpr, LAYOUT: tl.constexpr,
):  # fmt: skip
    """Decoding, one kernel: who receives sends the lists first, who sends lays out last."""
    TEAM: tl.constexpr = CALL.TEAM
    K: tl.constexpr = CALL.K
    PROGRAMS: tl.constexpr = CALL.PROGRAMS
    TO: tl.constexpr = LAYOUT.TO
    rows, _, width = shape
    row = team_row(TEAM, ALLTOALL, ctx)
    me, n_pes = place_in(TEAM, row, ctx)
    members = Members(row, me, n_pes)
    routing = routing_of_call(table, n_pes)
    if tl.program_id(0) < PROGRAMS:
        _send_tokens(given, tokens, experts, slots, chunks, shape, members, ctx, CALL, TILE)
        await_lists(routing, most * K, n_pes, ctx, CALL)
        n_tokens, first = (n_pes * most).to(tl.int32), (me * experts).to(tl.int32)
        if TO > 0:
            lay_out_few(
                made, routing, n_tokens, most, first, experts, n_tokens * K, tl.program_id(0), CALL,
                LAYOUT,
            )  # fmt: skip
        else:
            lay_out(
                made, routing, n_tokens, most, first, experts, tl.program_id(0), ctx, CALL, LAYOUT
            )
    else:
        program = tl.program_id(0) - PROGRAMS
        send_lists(
            routing, given.ids, tokens * K, most * K, most * K, experts * n_pes, program, members, ctx,
            CALL, True,
        )  # fmt: skip
        for chunk in range(program, chunks, PROGRAMS):
            keep_tokens(
                to,
                made.offsets,
                given,
                tokens,
                chunk,
                rows,
                most,
                experts,
                width,
                me,
                False,
                K,
                TILE,
            )
            if chunk == program:
                await_lists(routing, most * K, n_pes, ctx, CALL)
            _take_tokens(
                to, made.offsets, routing.base, routing.cells, chunk, most, experts, slots, shape,
                program, members, ctx, False, CALL, TILE,
            )  # fmt: skip
        close_others(slots.block, TAKEN, program, me, n_pes, chunks, PROGRAMS)
    end_routing(routing)
