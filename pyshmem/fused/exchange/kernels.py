# SPDX-License-Identifier: BSD-3-Clause
"""Kernels that move parts of tensors between PEs: by flags in data, or through slots."""

from typing import NamedTuple

import triton
import triton.language as tl

from ...triton.collectives import alltoall, fcollect
from ...triton.primitives.backend import device_function, program_barrier
from ...triton.runtime.constants import ALLTOALL
from ...triton.teams import place_in, team_row, world_pe
from ...triton.tile import store
from .._shared.slots_kernels import (
    SENT,
    TAKEN,
    Members,
    await_slot,
    count_slots,
    free_slot,
    open_slot,
    send_slot,
)

# Numbers that change from call to call stay parameters: Triton compiles anew for values in a group.


class Tile(NamedTuple):
    """Constants of a launch: team, programs that send, a tile's rows and columns, alignment of parts."""

    TEAM: int
    PROGRAMS: int
    TR: int
    TC: int
    VEC: int


@triton.jit
def alltoall_ll(out, x, part, words, ctx, TEAM: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    alltoall(out + offs, x + offs, part, words, ctx, mask=offs < part, team=TEAM)


@triton.jit
def all_gather_ll(out, x, part, words, ctx, TEAM: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offs < part
    fcollect(out + offs, tl.load(x + offs, mask=inside), part, words, ctx, mask=inside, team=TEAM)


@device_function
def _rows_at(first, r, layout):
    """Where rows start: see ``launch.Rows``."""
    return first + (r // layout.inner) * layout.outer + (r % layout.inner) * layout.stride


@device_function
def _send(
    x, table, slots, most, layout, width, rows, program, members, ctx, TILE: tl.constexpr
):  # fmt: skip
    """Chunks ``program``, ``program + TILE.PROGRAMS``, ... of the parts of all members go out."""
    VEC: tl.constexpr = TILE.VEC
    TR: tl.constexpr = TILE.TR
    TC: tl.constexpr = TILE.TC
    PROGRAMS: tl.constexpr = TILE.PROGRAMS
    TEAM: tl.constexpr = TILE.TEAM
    me, n_pes = members.me, members.n_pes
    rs, cols = tl.arange(0, TR)[:, None].to(tl.int64), tl.arange(0, TC)[None, :]
    for chunk in range(program, most, PROGRAMS):
        for k in range(n_pes):
            member = (me + 1 + k) % n_pes
            first = tl.multiple_of(tl.load(table + member), VEC)
            elems = tl.multiple_of(tl.load(table + n_pes + member), VEC)
            if tl.cast(chunk, tl.int64) * (rows * width) < elems:
                pe = world_pe(TEAM, members.row, member)
                number, place = open_slot(
                    *slots,
                    chunk // PROGRAMS,
                    program,
                    me,
                    member,
                    pe,
                    n_pes,
                    PROGRAMS,
                    ctx,
                )
                slot = place.to(x.dtype)
                for r0 in range(0, rows, TR):
                    here = r0 + rs
                    r = chunk * rows + here
                    start = _rows_at(first, r, layout)
                    for c0 in range(0, width, TC):
                        inside = (
                            (here < rows) & (c0 + cols < width) & (r * width + c0 + cols < elems)
                        )
                        tile = tl.load(x + (start + c0 + cols), mask=inside)
                        store(slot + (here * width + c0 + cols), tile, pe, ctx, mask=inside)
                send_slot(slots.block, number, program, me, pe, n_pes, PROGRAMS, ctx)
    program_barrier()
    for member in range(n_pes):
        chunks = (tl.load(table + n_pes + member) + rows * width - 1) // (rows * width)
        count_slots(slots.block, SENT, program, member, n_pes, chunks, PROGRAMS)


@device_function
def _receive(
    out, table, slots, most, layout, width, rows, program, members, ctx, TILE: tl.constexpr
):  # fmt: skip
    """The same chunks come in, from those members first that send here first."""
    VEC: tl.constexpr = TILE.VEC
    TR: tl.constexpr = TILE.TR
    TC: tl.constexpr = TILE.TC
    PROGRAMS: tl.constexpr = TILE.PROGRAMS
    TEAM: tl.constexpr = TILE.TEAM
    me, n_pes = members.me, members.n_pes
    rs, cols = tl.arange(0, TR)[:, None].to(tl.int64), tl.arange(0, TC)[None, :]
    for chunk in range(program, most, PROGRAMS):
        for k in range(n_pes):
            member = (me + n_pes - 1 - k) % n_pes
            first = tl.multiple_of(tl.load(table + 2 * n_pes + member), VEC)
            elems = tl.multiple_of(tl.load(table + 3 * n_pes + member), VEC)
            if tl.cast(chunk, tl.int64) * (rows * width) < elems:
                pe = world_pe(TEAM, members.row, member)
                number, place = await_slot(
                    *slots, chunk // PROGRAMS, program, member, pe, n_pes, PROGRAMS, ctx
                )
                slot = place.to(out.dtype)
                for r0 in range(0, rows, TR):
                    here = r0 + rs
                    r = chunk * rows + here
                    start = _rows_at(first, r, layout)
                    for c0 in range(0, width, TC):
                        inside = (
                            (here < rows) & (c0 + cols < width) & (r * width + c0 + cols < elems)
                        )
                        tile = tl.load(slot + (here * width + c0 + cols), mask=inside)
                        tl.store(out + (start + c0 + cols), tile, mask=inside)
                free_slot(slots.block, number, program, me, pe, n_pes, PROGRAMS, ctx)
    program_barrier()
    for member in range(n_pes):
        chunks = (tl.load(table + 3 * n_pes + member) + rows * width - 1) // (rows * width)
        count_slots(slots.block, TAKEN, program, member, n_pes, chunks, PROGRAMS)


@triton.jit
def exchange_rows(
    out, x, table, slots, most_out, most_in, out_layout, x_layout, width, rows, ctx,
    TILE: tl.constexpr,
):  # fmt: skip
    """A part of ``x`` to each member, one of each into ``out``, in rows of ``width`` elements.

    ``table`` has, for each member, where its part of ``x`` starts and how many elements it has, and the
    same of ``out``. ``rows`` are a chunk, which is at most a slot; ``most_out`` and ``most_in`` chunks
    are in the largest part.
    """
    TEAM: tl.constexpr = TILE.TEAM
    PROGRAMS: tl.constexpr = TILE.PROGRAMS
    row = team_row(TEAM, ALLTOALL, ctx)
    me, n_pes = place_in(TEAM, row, ctx)
    members = Members(row, me, n_pes)
    program = tl.program_id(0)
    if program < PROGRAMS:
        _send(x, table, slots, most_out, x_layout, width, rows, program, members, ctx, TILE)
    else:
        program -= PROGRAMS
        _receive(out, table, slots, most_in, out_layout, width, rows, program, members, ctx, TILE)
