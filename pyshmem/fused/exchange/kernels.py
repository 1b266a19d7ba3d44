# SPDX-License-Identifier: BSD-3-Clause
"""Kernels that move parts of tensors between PEs: by flags in data, or through slots."""

import triton
import triton.language as tl

from ...triton.collectives import alltoall, fcollect
from ...triton.primitives.backend import device_function, meet
from ...triton.runtime.constants import ALLTOALL
from ...triton.teams import place_in, team_row, world_pe
from ...triton.tile import store
from .._shared.slots_kernels import (
    SENT,
    TAKEN,
    await_slot,
    count_slots,
    free_slot,
    open_slot,
    send_slot,
)


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
def _rows_at(first, r, inner, outer, stride):
    """Where rows start: they are ``stride`` apart, and after each ``inner`` comes one of ``outer``."""
    return first + (r // inner) * outer + (r % inner) * stride


@device_function
def _send(
    x, table, block, head, words, most, inner, outer, stride, width, rows, lane, team, row, me, n_pes,
    ctx, PROGRAMS: tl.constexpr, TR: tl.constexpr, TC: tl.constexpr, VEC: tl.constexpr,
):  # fmt: skip
    """Chunks ``lane``, ``lane + PROGRAMS``, ... of the parts of all members go out."""
    rs, cols = tl.arange(0, TR)[:, None].to(tl.int64), tl.arange(0, TC)[None, :]
    for chunk in range(lane, most, PROGRAMS):
        for k in range(n_pes):
            member = (me + 1 + k) % n_pes
            first = tl.multiple_of(tl.load(table + member), VEC)
            elems = tl.multiple_of(tl.load(table + n_pes + member), VEC)
            if tl.cast(chunk, tl.int64) * (rows * width) < elems:
                pe = world_pe(team, row, member)
                number, place = open_slot(
                    block,
                    head,
                    words,
                    chunk // PROGRAMS,
                    lane,
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
                    start = _rows_at(first, r, inner, outer, stride)
                    for c0 in range(0, width, TC):
                        inside = (
                            (here < rows) & (c0 + cols < width) & (r * width + c0 + cols < elems)
                        )
                        tile = tl.load(x + (start + c0 + cols), mask=inside)
                        store(slot + (here * width + c0 + cols), tile, pe, ctx, mask=inside)
                send_slot(block, number, lane, me, pe, n_pes, PROGRAMS, ctx)
    meet()
    for member in range(n_pes):
        chunks = (tl.load(table + n_pes + member) + rows * width - 1) // (rows * width)
        count_slots(block, SENT, lane, member, n_pes, chunks, PROGRAMS)


@device_function
def _receive(
    out, table, block, head, words, most, inner, outer, stride, width, rows, lane, team, row, me, n_pes,
    ctx, PROGRAMS: tl.constexpr, TR: tl.constexpr, TC: tl.constexpr, VEC: tl.constexpr,
):  # fmt: skip
    """The same chunks come in, from those members first that send here first."""
    rs, cols = tl.arange(0, TR)[:, None].to(tl.int64), tl.arange(0, TC)[None, :]
    for chunk in range(lane, most, PROGRAMS):
        for k in range(n_pes):
            member = (me + n_pes - 1 - k) % n_pes
            first = tl.multiple_of(tl.load(table + 2 * n_pes + member), VEC)
            elems = tl.multiple_of(tl.load(table + 3 * n_pes + member), VEC)
            if tl.cast(chunk, tl.int64) * (rows * width) < elems:
                pe = world_pe(team, row, member)
                number, place = await_slot(
                    block, head, words, chunk // PROGRAMS, lane, member, pe, n_pes, PROGRAMS, ctx
                )
                slot = place.to(out.dtype)
                for r0 in range(0, rows, TR):
                    here = r0 + rs
                    r = chunk * rows + here
                    start = _rows_at(first, r, inner, outer, stride)
                    for c0 in range(0, width, TC):
                        inside = (
                            (here < rows) & (c0 + cols < width) & (r * width + c0 + cols < elems)
                        )
                        tile = tl.load(slot + (here * width + c0 + cols), mask=inside)
                        tl.store(out + (start + c0 + cols), tile, mask=inside)
                free_slot(block, number, lane, me, pe, n_pes, PROGRAMS, ctx)
    meet()
    for member in range(n_pes):
        chunks = (tl.load(table + 3 * n_pes + member) + rows * width - 1) // (rows * width)
        count_slots(block, TAKEN, lane, member, n_pes, chunks, PROGRAMS)


@triton.jit
def exchange_rows(
    out, x, table, block, head, words, most_out, most_in, out_inner, out_outer, out_stride,
    x_inner, x_outer, x_stride, width, rows, ctx, TEAM: tl.constexpr, PROGRAMS: tl.constexpr,
    TR: tl.constexpr, TC: tl.constexpr, VEC: tl.constexpr,
):  # fmt: skip
    """A part of ``x`` to each member, one of each into ``out``, in rows of ``width`` elements.

    ``table`` has, for each member, where its part of ``x`` starts and how many elements it has, and the
    same of ``out``. ``rows`` are a chunk, which is at most a slot; ``most_out`` and ``most_in`` chunks
    are in the largest part.
    """
    row = team_row(TEAM, ALLTOALL, ctx)
    me, n_pes = place_in(TEAM, row, ctx)
    program = tl.program_id(0)
    if program < PROGRAMS:
        _send(
            x, table, block, head, words, most_out, x_inner, x_outer, x_stride, width, rows, program,
            TEAM, row, me, n_pes, ctx, PROGRAMS, TR, TC, VEC,
        )  # fmt: skip
    else:
        _receive(
            out, table, block, head, words, most_in, out_inner, out_outer, out_stride, width, rows,
            program - PROGRAMS, TEAM, row, me, n_pes, ctx, PROGRAMS, TR, TC, VEC,
        )  # fmt: skip
