# SPDX-License-Identifier: BSD-3-Clause
"""Order and meeting: fence, quiet, sync and barrier, of a program and of a grid.

A team meets by an exchange of flags, as in Numba kernels, with which these may be mixed: exchange number
e is every member raising its flag at all others to e, and waiting until theirs have reached it. Larger
teams with far members have a flag a turn instead, see ``pyshmem/device/team/flags.py``.
"""

import triton.language as tl

from .primitives.backend import (
    device_function,
    distance_to,
    fence_all,
    fixed,
    poll,
    program_barrier,
    release_set,
    set_words,
)
from .primitives.by_proxy import words_by_proxy
from .primitives.job_constants import all_p2p
from .primitives.ring import settle, team_ring
from .runtime.constants import (
    CMP_GE,
    MAX_PES,
    TEAM_EPOCH,
    TEAM_FLAGS,
    TEAM_GRID_COUNT,
    TEAM_GRID_TURN,
    TEAM_NEAR,
    TEAM_OF_ROUNDS,
    TEAM_SYNC,
    TEAM_WORLD,
)
from .teams import place_in, team_row, world_pe

__all__ = ["barrier", "barrier_grid", "fence", "quiet", "sync", "sync_grid"]


@device_function
def fence(ctx):
    """Whoever sees what this program stores from now on sees what it stored, and asked for, before.

    Example: ``shmem.put(dest + offs, source + offs, right, ctx); shmem.fence(ctx)``
    Spec: shmem_fence.
    """
    quiet(ctx)


@device_function
def quiet(ctx):
    """Complete all that this program has stored on other PEs, and the PE's requests for chunks.

    Example: ``shmem.put(dest + offs, source + offs, right, ctx); shmem.quiet(ctx)``
    Spec: shmem_quiet.
    """
    program_barrier()
    settle(ctx)
    fence_all()


@device_function
def _members(team, row, ctx):
    """The caller's number in the team; a lane for each member, which others are there, and their PEs."""
    mine, n_pes = place_in(team, row, ctx)
    indices = tl.arange(0, MAX_PES)
    others = (indices < n_pes) & (indices != mine)
    return mine, indices, others, world_pe(team, row, indices, mask=others)


@device_function
def _words(row):
    """Pointers to the flags of the team's members, and to the number of the last exchange."""
    flags, counter = fixed(row + TEAM_FLAGS), fixed(row + TEAM_EPOCH)
    return flags.to(tl.pointer_type(tl.int64)), counter.to(tl.pointer_type(tl.int64))


@device_function
def _in_rounds(row):
    """Of a team with far members: have they a flag a turn instead of one a member?"""
    return fixed(row + TEAM_NEAR) == TEAM_OF_ROUNDS


@device_function
def _raise_by_proxy(team, row, flags, epoch, op: tl.constexpr, ctx):
    """Raises the flag at the others, whose flags are to be waited for; in turns that is done here."""
    settle(ctx)
    fence_all()
    mine, indices, others, pes = _members(team, row, ctx)
    ring = team_ring(team, ctx)
    if _in_rounds(row):
        n_pes = place_in(team, row, ctx)[1]
        one, place, step = indices == 0, flags, mine * 0 + 1
        while step < n_pes:
            behind = world_pe(team, row, (mine + step) % n_pes)
            front = world_pe(team, row, (mine + n_pes - step) % n_pes)
            words_by_proxy(place, epoch, tl.where(one, behind, -1), one, ring, ctx)
            poll(
                one.to(tl.int32),
                place + indices * 0,
                CMP_GE,
                epoch,
                tl.where(one, front, -1),
                op,
                ctx,
            )
            fence_all()
            place += 1
            step += step
    else:
        words_by_proxy(flags + mine, epoch, pes, others, ring, ctx)


@device_function
def exchange(team, row, op: tl.constexpr, ctx):
    """The team's members meet; each by one program at a time."""
    flags, counter = _words(row)
    epoch = tl.load(counter, volatile=True) + 1
    mine, indices, others, pes = _members(team, row, ctx)
    program_barrier()
    if all_p2p():
        remote = flags + mine + (distance_to(tl.where(others, pes, 0), ctx) >> 3)
        set_words(others.to(tl.int32), remote, epoch)
    else:
        _raise_by_proxy(team, row, flags, epoch, op, ctx)
        others = others & (not _in_rounds(row))
    poll(others.to(tl.int32), flags + indices, CMP_GE, epoch, pes, op, ctx)
    tl.store(counter, epoch)
    program_barrier()


@device_function
def exchange_grid(settles: tl.constexpr, team, op: tl.constexpr, ctx):
    """The programs of the grids of all members meet.

    The last program of a grid raises the flags, and the turn of its own grid; all wait for both. Nobody
    changes what is read here before all programs of the grid have come.
    """
    row = team_row(team, op, ctx)
    programs = tl.num_programs(0) * tl.num_programs(1) * tl.num_programs(2)
    flags, counter = _words(row)
    own = row + TEAM_GRID_TURN
    turn = tl.load(own, volatile=True) + 1
    epoch = tl.load(counter, volatile=True) + 1
    mine, indices, others, pes = _members(team, row, ctx)
    is_own = indices == mine
    remote = flags + mine
    if all_p2p():
        remote = remote + (distance_to(tl.where(others, pes, 0), ctx) >> 3)
    program_barrier()
    if settles:
        settle(ctx)
    if tl.atomic_add(row + TEAM_GRID_COUNT, 1, sem="acq_rel", scope="sys") == programs - 1:
        tl.store(row + TEAM_GRID_COUNT, tl.cast(0, tl.int64))
        tl.store(counter, epoch)
        program_barrier()
        if all_p2p():
            set_words(
                (others | is_own).to(tl.int32),
                tl.where(is_own, own, remote),
                tl.where(is_own, turn, epoch),
            )
        else:
            _raise_by_proxy(team, row, flags, epoch, op, ctx)
            release_set(own, turn)
    if not all_p2p():
        others = others & (not _in_rounds(row))
    places, least = tl.where(is_own, own, flags + indices), tl.where(is_own, turn, epoch)
    poll((others | is_own).to(tl.int32), places, CMP_GE, least, pes, op, ctx)
    program_barrier()


@device_function
def sync(ctx, team=TEAM_WORLD):
    """Wait until all members have called it, one program each; memory is seen as after a signal.

    Example: ``shmem.sync(ctx, shmem.TEAM_NODE)``
    Spec: shmem_sync, shmem_team_sync.
    """
    exchange(team, team_row(team, TEAM_SYNC, ctx), TEAM_SYNC, ctx)


@device_function
def barrier(ctx, team=TEAM_WORLD):
    """``quiet``, then ``sync``.

    Example: ``shmem.barrier(ctx)``
    Spec: shmem_barrier_all.
    """
    quiet(ctx)
    sync(ctx, team)


@device_function
def sync_grid(ctx, team=TEAM_WORLD):
    """Wait until all programs of the grids of all members have called it.

    The grid has to be resident as a whole, and one kernel of the PE at a time may use the team so.
    Example: ``shmem.sync_grid(ctx)``
    Extension.
    """
    exchange_grid(False, team, TEAM_SYNC, ctx)


@device_function
def barrier_grid(ctx, team=TEAM_WORLD):
    """``quiet`` of every program, then ``sync_grid``.

    Example: ``shmem.barrier_grid(ctx)``
    Extension.
    """
    exchange_grid(True, team, TEAM_SYNC, ctx)
