# SPDX-License-Identifier: BSD-3-Clause
"""Contexts in kernels: with one, PEs are those of its team, in every routine that takes it."""

from __future__ import annotations

import numpy as np
import pytest
from numba import cuda
from team_kinds import fault_of

import pyshmem
from pyshmem import device as shmem


@cuda.jit
def to_the_next(ctx, pe, source, dest, sig, word, old, pes):
    """Each routine writes or reads an element of its own."""
    shmem.put(dest[0:2], source[0:2], pe, ctx=ctx)
    shmem.put_nbi(dest[2:4], source[2:4], pe, ctx=ctx)
    shmem.iput(dest[4:7], source[4:], 2, 1, 2, pe, ctx=ctx)
    shmem.ibput(dest[8:11], source[6:], 2, 1, 1, 2, pe, ctx=ctx)
    shmem.p(dest[11:], source[11], pe, ctx=ctx)
    shmem.put_signal(dest[12:14], source[12:14], sig, 3, shmem.SIGNAL_SET, pe, ctx=ctx)
    shmem.fence(ctx)
    shmem.signal_add(sig, 4, pe, ctx=ctx)
    shmem.put_signal_nbi(dest[14:], source[14:], sig, 8, shmem.SIGNAL_ADD, pe, ctx=ctx)
    old[0] = shmem.atomic_fetch_add(word, 5, pe, ctx=ctx)
    shmem.atomic_or(word, 64, pe, ctx=ctx)
    shmem.quiet(ctx)  # a fence orders nothing that a non-blocking operation fetches
    shmem.atomic_fetch_nbi(old[1:], word, pe, ctx=ctx)
    pes[0] = pe
    shmem.quiet(ctx)
    shmem.pe_quiet(pes, 1, ctx=ctx)


@cuda.jit
def from_the_next(ctx, pe, source, dest):
    shmem.get(dest[0:2], source[0:2], pe, ctx=ctx)
    shmem.get_nbi(dest[2:4], source[2:4], pe, ctx=ctx)
    shmem.iget(dest[4:], source[4:], 2, 1, 2, pe, ctx=ctx)
    shmem.ibget(dest[8:], source[6:], 2, 1, 1, 2, pe, ctx=ctx)
    dest[11] = shmem.g(source[11:], pe, ctx=ctx)
    shmem.quiet(ctx)


@cuda.jit
def as_a_group(ctx, pe, source, dest):
    shmem.put_work_group(dest, source, pe, ctx=ctx)
    shmem.quiet_work_group(ctx)


MOVED = [0, 1, 2, 3, 4, 6, 8, 10, 11]  # elements of dest, and the places in source they come from:
PLACES = [0, 1, 2, 3, 4, 5, 6, 7, 11]


@pytest.fixture
def ring_of(job):
    """A context of all PEs in reverse, this PE's number there, and the world number of a member."""
    n = job.n_pes
    with pyshmem.TEAM_WORLD.split_strided(n - 1, -1 if n > 1 else 0, n) as team:
        with team.create_ctx() as ctx:
            yield ctx, team.my_pe(), lambda member: n - 1 - member % n
        cuda.synchronize()
        pyshmem.barrier_all()


def test_puts_signals_and_atomics_go_to_the_teams_pe(job, heap, place, show, ring_of):
    ctx, mine, world = ring_of
    source = place(np.arange(16) + 100 * job.my_pe)
    dest, old = place(np.zeros(16, np.int64)), place(np.zeros(2, np.uint64))
    sig, word = pyshmem.new_signal(heap=heap), place(np.array([job.my_pe], np.uint64))
    pes = place(np.zeros(1, np.int32))
    pyshmem.barrier_all()
    to_the_next[1, 1](
        shmem.as_argument(ctx), (mine + 1) % job.n_pes, source, dest, sig, word, old, pes
    )
    got, before = show(dest), world(mine - 1)
    assert (got[MOVED] == np.array(PLACES) + 100 * before).all()
    assert (got[12:] == np.arange(12, 16) + 100 * before).all()
    assert show(sig)[0] == 15
    assert show(word)[0] == (job.my_pe + 5) | 64
    after = world(mine + 1)
    assert show(old).tolist() == [after, (after + 5) | 64]


def test_gets_come_from_the_teams_pe(job, place, show, ring_of):
    ctx, mine, world = ring_of
    source, dest = place(np.arange(16) + 100 * job.my_pe), place(np.zeros(16, np.int64))
    from_the_next[1, 1](shmem.as_argument(ctx), (mine + 1) % job.n_pes, source, dest)
    assert (show(dest)[MOVED] == np.array(PLACES) + 100 * world(mine + 1)).all()


def test_groups_take_contexts_too(job, place, show, ring_of):
    ctx, mine, world = ring_of
    source, dest = place(np.arange(50) + 100 * job.my_pe), place(np.zeros(50, np.int64))
    as_a_group[1, 40](shmem.as_argument(ctx), (mine + 1) % job.n_pes, source, dest)
    assert (show(dest) == np.arange(50) + 100 * world(mine - 1)).all()


@pytest.mark.parametrize("pe", ["outside", -1])
def test_a_pe_outside_the_team_is_a_fault(job, place, show, ring_of, pe):
    ctx, _, _ = ring_of
    source, dest = place(np.ones(4, np.int64)), place(np.zeros(4, np.int64))
    number = job.n_pes if pe == "outside" else pe
    message = fault_of(lambda: as_a_group[1, 32](shmem.as_argument(ctx), number, source, dest))
    assert "put: pe -1 is not one of" in message
    assert "or, with ctx=, was outside its team" in message
    assert (show(dest) == 0).all()


def test_a_destroyed_context_is_a_fault(job, place, show):
    n = job.n_pes
    team = pyshmem.TEAM_WORLD.split_strided(0, 1, n)
    slot = shmem.as_argument(team)
    team.destroy()
    source, dest = place(np.ones(4, np.int64)), place(np.zeros(4, np.int64))
    message = fault_of(lambda: as_a_group[1, 32](slot, 0, source, dest))
    assert f"slot {slot} holds no team" in message
    assert (show(dest) == 0).all()
