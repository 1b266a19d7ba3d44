# SPDX-License-Identifier: BSD-3-Clause
"""The kernels of ``all_reduce_rmsnorm`` by the owners of rows: a reduce-scatter, then an all-gather.

Member p owns the rows from p * tokens // n_pes on, and program i of every member has number i,
i + programs, ... of each owner's rows. So programs of one number wait for each other alone. ``counts``
are how often each program was called; ``flags``, for each program: by member, in which call rows from
there have come, then in which call it has finished its own.

``inbox`` is written again one call later, when its writer's last call has ended: that waited for all
owners to have finished, which they say when they have read their inbox. ``sums`` and ``rows`` are
written when all members' rows have come, so when no member is in an earlier call and reads them.
"""

import triton
import triton.language as tl

import pyshmem.triton as shmem

from ...triton.primitives.backend import program_barrier
from ...triton.runtime.constants import ALL_REDUCE, CMP_GE, SIGNAL_SET
from ...triton.teams import place_in, team_row, world_pe
from .row_kernels import finish_row, load_gains, load_residual, pad_scales


@triton.jit
def _first_of(member, tokens, n_pes):
    return (tokens * member.to(tl.int64) // n_pes).to(tl.int32)


@triton.jit
def _tell(flag, call, member, TEAM: tl.constexpr, members, ctx):
    shmem.signal_op(flag, call, SIGNAL_SET, world_pe(TEAM, members, member), ctx)


@triton.jit
def _wait_for(flags, call, member, TEAM: tl.constexpr, members, ctx):
    pe = world_pe(TEAM, members, member)
    shmem.signal_wait_until(flags + member, CMP_GE, call, ctx, pe)


@triton.jit
def _rows_to_owners(
    x, inbox, arrived, call, tokens, mine, n_pes, offs, inside, TEAM: tl.constexpr, members, ctx,
    HIDDEN: tl.constexpr,
):  # fmt: skip
    most = (tokens + n_pes - 1) // n_pes
    for k in range(1, n_pes):
        owner = (mine + k) % n_pes
        pe = world_pe(TEAM, members, owner)
        first = _first_of(owner, tokens, n_pes)
        last = _first_of(owner + 1, tokens, n_pes)
        number = first + tl.program_id(0)
        while number < last:
            row = tl.load(x + number.to(tl.int64) * HIDDEN + offs, mask=inside, other=0)
            place = (mine * most + number - first) * HIDDEN
            shmem.store(inbox + place + offs, row, pe, ctx, mask=inside)
            number += tl.num_programs(0)
        _tell(arrived + mine, call, owner, TEAM, members, ctx)


@triton.jit
def _sum_of_row(
    x, inbox, number, first, most, mine, n_pes, offs, inside, BLOCK: tl.constexpr,
    HIDDEN: tl.constexpr,
):  # fmt: skip
    """The sum over the members of an own row, in their order, float32."""
    total = tl.zeros([BLOCK], tl.float32)
    for member in range(n_pes):
        if member == mine:
            row = tl.load(x + number.to(tl.int64) * HIDDEN + offs, mask=inside, other=0)
        else:
            place = (member * most + number - first).to(tl.int64) * HIDDEN
            row = tl.load(inbox + place + offs, mask=inside, other=0)
        total += row.to(tl.float32)
    return total


@triton.jit(do_not_specialize=["tokens"])
def two_shot(
    x, residual, weight, bias, out, residual_out, scales, global_scale, tokens, eps, inbox, sums,
    counts, flags, ctx, ROW: tl.constexpr,
):  # fmt: skip
    """Members send rows to their owners, which sum them and send the sums to all, who finish them."""
    BLOCK: tl.constexpr = ROW.BLOCK
    HIDDEN: tl.constexpr = ROW.HIDDEN
    RESIDUAL: tl.constexpr = ROW.RESIDUAL
    TEAM: tl.constexpr = ROW.TEAM
    NORM: tl.constexpr = ROW.NORM
    offs = tl.arange(0, BLOCK)
    inside = offs < HIDDEN
    members = team_row(TEAM, ALL_REDUCE, ctx)
    mine, n_pes = place_in(TEAM, members, ctx)
    call = tl.load(counts + tl.program_id(0), volatile=True) + 1
    program_barrier()
    tl.store(counts + tl.program_id(0), call)
    arrived = flags + 2 * n_pes * tl.program_id(0)
    done = arrived + n_pes
    gain, shift = load_gains(weight, bias, offs, inside, ROW)
    _rows_to_owners(
        x, inbox, arrived, call, tokens, mine, n_pes, offs, inside, TEAM, members, ctx, HIDDEN
    )
    pad_scales(scales, tokens, ROW)
    for k in range(1, n_pes):
        _wait_for(arrived, call, (mine + k) % n_pes, TEAM, members, ctx)
    first = _first_of(mine, tokens, n_pes)
    last = _first_of(mine + 1, tokens, n_pes)
    most = (tokens + n_pes - 1) // n_pes
    number = first + tl.program_id(0)
    while number < last:
        places = number.to(tl.int64) * HIDDEN + offs
        more = load_residual(residual, places, inside, RESIDUAL)
        total = _sum_of_row(x, inbox, number, first, most, mine, n_pes, offs, inside, BLOCK, HIDDEN)
        row = (total + more).to(residual_out.dtype.element_ty)
        for k in range(1, n_pes):
            pe = world_pe(TEAM, members, (mine + k) % n_pes)
            shmem.store(sums + places, row, pe, ctx, mask=inside)
        tl.store(sums + places, row, mask=inside)
        number += tl.num_programs(0)
    for k in range(1, n_pes):
        _tell(done + mine, call, (mine + k) % n_pes, TEAM, members, ctx)
    # Own rows are finished here, too: two copies of ``finish_row`` in
    # a kernel may add in different orders.
    program_barrier()
    for k in range(n_pes):
        owner = (mine + k) % n_pes
        if k > 0:
            _wait_for(done, call, owner, TEAM, members, ctx)
        last = _first_of(owner + 1, tokens, n_pes)
        number = _first_of(owner, tokens, n_pes) + tl.program_id(0)
        while number < last:
            places = number.to(tl.int64) * HIDDEN + offs
            row = tl.load(sums + places, mask=inside, other=0)
            tl.store(residual_out + places, row, mask=inside)
            if NORM != "none":
                finish_row(
                    row, number, gain, shift, offs, inside, out, scales, global_scale, eps, ROW
                )
            number += tl.num_programs(0)
