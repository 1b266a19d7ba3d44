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
    tokens are loaded before it is known whether they go. WIDTH: elements of a token that is quantised, a
    constant since scales would be stored a byte at a time where their number has no known factors.
    """

    FORMAT: str
    ALL: bool
    TR: int
    TT: int
    TC: int
    GLOBAL: bool = False
    WIDTH: int = 0


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
def made_rows(value, unit, TILE: tl.constexpr):
    """Tokens as they travel, and scales of those that are quantised; ``unit`` is the global scale."""
    FORMAT: tl.constexpr = TILE.FORMAT
    if FORMAT == "":
        return value, value
    else:
        return _quantized(value, unit, TILE)


@device_function
def store_rows(
    made, scale, goes, place, r, pitch, width, c0, pe, ctx, TILE: tl.constexpr
):  # fmt: skip
    """Columns ``c0`` on of ``made_rows`` into their places of a slot on ``pe``; scales are behind."""
    FORMAT: tl.constexpr = TILE.FORMAT
    TC: tl.constexpr = TILE.TC
    PER: tl.constexpr = per_byte(FORMAT)
    GROUP: tl.constexpr = group_of(FORMAT)
    cols = c0 // PER + tl.arange(0, TC // PER)[None, :]
    dtype: tl.constexpr = tl.uint8 if FORMAT != "" else made.dtype
    row = slot_rows(place, r, pitch, dtype)[:, None]
    if FORMAT != "":
        at = c0 // GROUP + tl.arange(0, TC // GROUP)[None, :]
        scales = (row + width // PER).to(tl.pointer_type(scale_dtype(FORMAT)))
        store(scales + at, scale, pe, ctx, mask=goes & (at < width // GROUP))
    store(row + cols, made, pe, ctx, mask=goes & (cols < width // PER))


@device_function
def keep_made(to, at, comes, made, scale, width, c0, TILE: tl.constexpr):
    """Columns ``c0`` on of ``made_rows``, those that come, to the caller's rows ``at``."""
    FORMAT: tl.constexpr = TILE.FORMAT
    TC: tl.constexpr = TILE.TC
    PER: tl.constexpr = per_byte(FORMAT)
    GROUP: tl.constexpr = group_of(FORMAT)
    out, scales = to
    if FORMAT != "":
        group = c0 // GROUP + tl.arange(0, TC // GROUP)[None, :]
        inside = comes & (group < width // GROUP)
        tl.store(scales + at * (width // GROUP) + group, scale, mask=inside)
    cols = c0 // PER + tl.arange(0, TC // PER)[None, :]
    tl.store(out + at * (width // PER) + cols, made, mask=comes & (cols < width // PER))


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
    TC: tl.constexpr = TILE.TC
    GLOBAL: tl.constexpr = TILE.GLOBAL
    unit = load_global_scale(given.global_scale, GLOBAL)
    comes, at = comes[:, None], at.to(tl.int64)[:, None]
    source = given.x + t.to(tl.int64)[:, None] * width
    for c0 in range(0, width, TC):
        cols = c0 + tl.arange(0, TC)[None, :]
        value = tl.load(source + cols, mask=comes & (cols < width), other=0)
        made, scale = made_rows(value, unit, TILE)
        keep_made(to, at, comes, made, scale, width, c0, TILE)


@device_function
def _part_of(j, rows, CALL: tl.constexpr, TILE: tl.constexpr):
    """Where the program's part ``j`` is, ``TC`` columns of a token: chunk, row, first column, token."""
    PROGRAMS: tl.constexpr = CALL.PROGRAMS
    TC: tl.constexpr = TILE.TC
    WIDTH: tl.constexpr = TILE.WIDTH
    STEPS: tl.constexpr = (WIDTH + TC - 1) // TC
    nth, r = j // STEPS // rows, j // STEPS % rows
    t = (tl.program_id(0) + nth * PROGRAMS) * rows + r
    return nth, r, j % STEPS * TC, t


@device_function
def _load_part(given, tokens, j, rows, parts, width, CALL: tl.constexpr, TILE: tl.constexpr):
    """The elements and the experts of a part; 0 and -1 behind the last."""
    K: tl.constexpr = CALL.K
    KP: tl.constexpr = triton.next_power_of_2(K)
    TC: tl.constexpr = TILE.TC
    _nth, _r, c0, t = _part_of(j, rows, CALL, TILE)
    there = (j < parts) & (t < tokens)
    source = given.x + t.to(tl.int64) * width
    cols = c0 + tl.arange(0, TC)[None, :]
    value = tl.load(source + cols, mask=there & (cols < width), other=0)
    js = tl.arange(0, KP)[None, :]
    wanted = tl.load(given.ids + t.to(tl.int64) * K + js, mask=there & (js < K), other=-1)
    return value, wanted


@device_function
def _is_for(wanted, member, experts):
    """Whether one of a token's experts is the member's."""
    first = tl.cast(member, tl.int64) * experts
    hits = (wanted >= first) & (wanted < first + experts)
    return (tl.max(hits.to(tl.int32), 1) > 0)[:, None]


@device_function
def _after(me, k, n_pes):
    """The member ``1 + k`` behind the caller, without a division, of which each token would have one."""
    member = me + 1 + k
    return tl.where(member >= n_pes, member - n_pes, member)


@device_function
def _send_made(
    to, given, tokens, most, experts, slots, chunks, shape, members, ctx, CALL: tl.constexpr,
    TILE: tl.constexpr, KEEP: tl.constexpr,
):  # fmt: skip
    """``_send_tokens`` of those that are quantised: each is made once for all members that get it.

    The next part is on its way from memory while one is made, from chunk to chunk, too. With ``KEEP``
    the caller's own go to their rows as well, which decode mode knows without the lists. A chunk goes to
    all members before the next: who is not done with the one before the last holds up the others. But of
    all senders the one that is furthest behind waits for nobody: what its receivers wait for has been
    sent, so no wait goes in a circle.
    """
    TEAM: tl.constexpr = CALL.TEAM
    PROGRAMS: tl.constexpr = CALL.PROGRAMS
    TC: tl.constexpr = TILE.TC
    GLOBAL: tl.constexpr = TILE.GLOBAL
    WIDTH: tl.constexpr = TILE.WIDTH
    STEPS: tl.constexpr = (WIDTH + TC - 1) // TC
    unit = load_global_scale(given.global_scale, GLOBAL)
    rows, pitch, width = shape
    row, me, n_pes = members
    program = tl.program_id(0)
    parts = tl.maximum((chunks - program + PROGRAMS - 1) // PROGRAMS, 0) * rows * STEPS
    value, wanted = _load_part(given, tokens, 0, rows, parts, width, CALL, TILE)
    for j in range(parts):
        second, wanted_second = _load_part(given, tokens, j + 1, rows, parts, width, CALL, TILE)
        made, scale = made_rows(value, unit, TILE)
        nth, number_of_row, c0, t = _part_of(j, rows, CALL, TILE)
        r = number_of_row + tl.arange(0, 1)
        if KEEP:
            at = (me * most + t + tl.arange(0, 1)).to(tl.int64)[:, None]
            keep_made(to, at, _is_for(wanted, me, experts), made, scale, width, c0, TILE)
        for k in range(n_pes - 1):
            member = _after(me, k, n_pes)
            pe = world_pe(TEAM, row, member)
            number, place = next_slot(*slots, nth, program, me, member, n_pes, PROGRAMS)
            if (number_of_row == 0) & (c0 == 0):
                await_free(slots.block, number, program, member, pe, n_pes, PROGRAMS, ctx)
            goes = _is_for(wanted, member, experts)
            store_rows(made, scale, goes, place, r, pitch, width, c0, pe, ctx, TILE)
            if (number_of_row == rows - 1) & (c0 + TC >= width):
                send_slot(slots.block, number, program, me, pe, n_pes, PROGRAMS, ctx)
        value, wanted = second, wanted_second
    close_others(slots.block, SENT, program, me, n_pes, chunks, PROGRAMS)


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
    x, ids, _ = given
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
                    store_rows(value, value, goes, place, r, pitch, width, c0, pe, ctx, TILE)
            send_slot(slots.block, number, program, me, pe, n_pes, PROGRAMS, ctx)
    close_others(slots.block, SENT, program, me, n_pes, chunks, PROGRAMS)


@device_function
def _send(
    to, given, tokens, most, experts, slots, chunks, shape, members, ctx, CALL: tl.constexpr,
    TILE: tl.constexpr, KEEP: tl.constexpr,
):  # fmt: skip
    """The caller's tokens go to all other members; quantised ones with ``KEEP`` to its own rows, too."""
    FORMAT: tl.constexpr = TILE.FORMAT
    if FORMAT == "":
        _send_tokens(given, tokens, experts, slots, chunks, shape, members, ctx, CALL, TILE)
    else:
        _send_made(
            to, given, tokens, most, experts, slots, chunks, shape, members, ctx, CALL, TILE, KEEP
        )


@device_function
def width_of(width, TILE: tl.constexpr):
    """Elements of a token: a constant if there is one."""
    WIDTH: tl.constexpr = TILE.WIDTH
    if WIDTH > 0:
        width = WIDTH
    return width


@device_function
def _known(shape, TILE: tl.constexpr):
    return ChunkShape(shape.rows, shape.pitch, width_of(shape.width, TILE))


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
    members, shape = Members(row, me, n_pes), _known(shape, TILE)
    if tl.program_id(0) < PROGRAMS:
        _send(
            to, given, tokens, most, experts, slots, chunks, shape, members, ctx, CALL, TILE, False
        )
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
    shape = _known(shape, TILE)
    few, positions = tl.minimum(tokens, most), made.counts + 2 * PROGRAMS * EP
    if tl.program_id(0) < PROGRAMS:
        _send(to, given, few, most, experts, slots, chunks, shape, members, ctx, CALL, TILE, False)
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
    FORMAT: tl.constexpr = TILE.FORMAT
    shape = _known(shape, TILE)
    rows, _, width = shape
    row = team_row(TEAM, ALLTOALL, ctx)
    me, n_pes = place_in(TEAM, row, ctx)
    members = Members(row, me, n_pes)
    routing = routing_of_call(table, n_pes)
    if tl.program_id(0) < PROGRAMS:
        _send(
            to, given, tokens, most, experts, slots, chunks, shape, members, ctx, CALL, TILE, True
        )
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
            if FORMAT == "":  # else who sends keeps them
                keep_tokens(
                    to, made.offsets, given, tokens, chunk, rows, most, experts, width, me, False, K,
                    TILE,
                )  # fmt: skip
            if chunk == program:
                await_lists(routing, most * K, n_pes, ctx, CALL)
            _take_tokens(
                to, made.offsets, routing.base, routing.cells, chunk, most, experts, slots, shape,
                program, members, ctx, False, CALL, TILE,
            )  # fmt: skip
        close_others(slots.block, TAKEN, program, me, n_pes, chunks, PROGRAMS)
    end_routing(routing)
