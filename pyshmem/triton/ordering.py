# SPDX-License-Identifier: BSD-3-Clause
"""Order and meeting: fence, quiet, sync and barrier, of a program and of a grid.

A team meets by an exchange of flags, as in Numba kernels, with which these may be mixed: exchange number
e is every member raising its flag at all others to e, and waiting until theirs have reached it.
"""

import triton.language as tl

from .chosen import device_function, fence_all, meet, poll, release_set, set_words, state, wait
from .far import far_words
from .ring import settle
from .roads import near
from .teams import place_in, team_row, world_pe
from .words import (
    CMP_GE,
    DELTA,
    TEAM_EPOCH,
    TEAM_FLAGS,
    TEAM_GRID_COUNT,
    TEAM_GRID_TURN,
    TEAM_SYNC,
    TEAM_WORLD,
)

__all__ = ["barrier", "barrier_grid", "fence", "quiet", "sync", "sync_grid"]

_LANES = tl.constexpr(128)  # as many PEs as the state block knows


@device_function
def fence(ctx):
    """Whoever sees what this program stores from now on sees what it stored, and asked for, before.

    Spec: shmem_fence.
    """
    quiet(ctx)


@device_function
def quiet(ctx):
    """Complete all that this program has stored on other PEs, and the PE's requests for chunks.

    Spec: shmem_quiet.
    """
    meet()
    settle(ctx)
    fence_all()


@device_function
def _word(row, number: tl.constexpr):
    return tl.load(row + number).to(tl.pointer_type(tl.int64))


@device_function
def exchange(team, row, op: tl.constexpr, ctx):
    """The team's members meet; each by one program at a time."""
    flags = _word(row, TEAM_FLAGS)
    counter = _word(row, TEAM_EPOCH)
    epoch = tl.load(counter, volatile=True) + 1
    mine, n_pes = place_in(team, row, ctx)
    lanes = tl.arange(0, _LANES)
    others = (lanes < n_pes) & (lanes != mine)
    pes = world_pe(team, row, lanes, mask=others)
    meet()
    if near():
        remote = flags + mine + (state(ctx, DELTA + tl.where(others, pes, 0)) >> 3)
        fence_all()
        set_words(others.to(tl.int32), remote, epoch)
    else:
        settle(ctx)
        fence_all()
        far_words(flags + mine, epoch, pes, others, ctx)
    poll(others.to(tl.int32), flags + lanes, CMP_GE, epoch, pes, op, ctx)
    tl.store(counter, epoch)
    meet()


@device_function
def sync(ctx, team=TEAM_WORLD):
    """Wait until all members have called it, one program each; memory is seen as after a signal.

    Spec: shmem_sync, shmem_team_sync.
    """
    exchange(team, team_row(team, TEAM_SYNC, ctx), TEAM_SYNC, ctx)


@device_function
def barrier(ctx, team=TEAM_WORLD):
    """``quiet``, then ``sync``.

    Spec: shmem_barrier_all.
    """
    quiet(ctx)
    sync(ctx, team)


@device_function
def sync_grid(ctx, team=TEAM_WORLD):
    """Wait until all programs of the grids of all members have called it.

    The grid has to be resident as a whole, and one kernel of the PE at a time may use the team so.
    Extension.
    """
    row = team_row(team, TEAM_SYNC, ctx)
    programs = tl.num_programs(0) * tl.num_programs(1) * tl.num_programs(2)
    turn = tl.load(row + TEAM_GRID_TURN, volatile=True)
    meet()
    if tl.atomic_add(row + TEAM_GRID_COUNT, 1, sem="acq_rel", scope="gpu") == programs - 1:
        tl.store(row + TEAM_GRID_COUNT, tl.cast(0, tl.int64))
        exchange(team, row, TEAM_SYNC, ctx)
        release_set(row + TEAM_GRID_TURN, turn + 1)
    else:
        wait(row + TEAM_GRID_TURN, CMP_GE, turn + 1, -1, TEAM_SYNC, ctx)


@device_function
def barrier_grid(ctx, team=TEAM_WORLD):
    """``quiet`` of every program, then ``sync_grid``. Extension."""
    quiet(ctx)
    sync_grid(ctx, team)
