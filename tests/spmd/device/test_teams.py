# SPDX-License-Identifier: BSD-3-Clause
"""Teams in kernels: who is who, slots that are used again, several collectives at a time."""

from __future__ import annotations

import numpy as np
import pytest
from numba import cuda
from team_kinds import KINDS, LAUNCH, by_scope, fault_of, team_of

import pyshmem
from pyshmem import device as shmem


@cuda.jit
def who(team, other, out, translated):
    out[0], out[1] = shmem.team_my_pe(team), shmem.team_n_pes(team)
    for pe in range(translated.size):
        translated[pe] = shmem.team_translate_pe(team, pe, other)


@pytest.mark.parametrize("kind", KINDS)
def test_members_know_their_numbers(job, place, show, kind):
    with team_of(kind, job.n_pes) as (team, members):
        out, translated = place(np.zeros(2, np.int32)), place(np.zeros(len(members), np.int32))
        back = place(np.zeros(job.n_pes, np.int32))
        if team is not None:
            who[1, 1](team, shmem.TEAM_WORLD, out, translated)
            who[1, 1](shmem.TEAM_WORLD, team, out, back)
            who[1, 1](team, shmem.TEAM_WORLD, out, translated)
        got = show(out).tolist(), show(translated).tolist(), show(back).tolist()
        if team is not None:
            places = [members.index(pe) if pe in members else -1 for pe in range(job.n_pes)]
            assert got == ([members.index(job.my_pe), len(members)], members, places)


@pytest.mark.parametrize("pe", [-1, 4])
def test_no_such_member_translates_to_none(job, place, show, pe):
    out = place(np.zeros(1, np.int32))
    translate_one[1, 1](shmem.TEAM_WORLD, pe, out)
    assert show(out)[0] == -1


@cuda.jit
def translate_one(team, pe, out):
    out[0] = shmem.team_translate_pe(team, pe, shmem.TEAM_WORLD)


@cuda.jit
def sum_on(team, dest, source):
    shmem.sum_reduce_work_group(team, dest, source, dest.size)


def test_an_object_of_the_host_is_no_argument_of_a_kernel(job, place):
    array = place(np.zeros(4, np.int32))
    for handle, name in ((pyshmem.TEAM_WORLD, "team"), (pyshmem.CTX_DEFAULT, "context")):
        with pytest.raises(TypeError, match=rf"as_argument\({name}\)"):
            sum_on[1, 32](handle, array, array)
    with pytest.raises(TypeError, match="team is None, as a split returns where this PE is no"):
        shmem.as_argument(None)


@pytest.mark.parametrize("value", ["x", 7, [1, 2], np.float32(1)], ids=repr)
def test_what_a_kernel_takes_in_no_form_is_refused(job, value):
    kind = type(value).__name__
    with pytest.raises(TypeError, match=f"given a {kind}; it takes a team, .* or an array"):
        shmem.as_argument(value)


@pytest.mark.parametrize("slot", [-1, 63, 64, 1 << 30])
def test_a_slot_without_a_team_is_a_fault(job, place, slot):
    array = place(np.zeros(4, np.int32))
    message = fault_of(lambda: sum_on[1, 32](slot, array, array))
    assert "reduce" in message
    assert f"team {slot}" in message or f"slot {slot}" in message


def test_a_destroyed_team_is_a_fault(job, place):
    array = place(np.zeros(4, np.int32))
    with team_of("reversed", job.n_pes) as (slot, _):
        pass
    message = fault_of(lambda: sum_on[1, 32](slot, array, array))
    assert str(slot) in message


def test_a_slot_can_be_used_again(job, place, show):
    """By teams of other orders; their flags and epochs start from nothing, whatever came before."""
    for turn in range(6):
        kind = ("reversed", "odd", "list")[turn % 3]
        with team_of(kind, job.n_pes) as (slot, members):
            source = place(np.full(50, job.my_pe + 1 + turn, np.int32))
            dest = place(np.zeros(50, np.int32))
            if slot is not None:
                for _ in range(turn + 1):
                    sum_on[1, 40](slot, dest, source)
            got = show(dest)
            if slot is not None:
                assert (got == sum(pe + 1 + turn for pe in members)).all()


def chain(sum_reduce, fcollect, sync):
    """Each round sends what the last one got: any mix-up of rounds stays visible to the end."""

    @cuda.jit
    def kernel(team, values, collected, rounds, n, rank, size):
        for k in range(rounds):
            begin, end = k * n, (k + 1) * n
            sum_reduce(team, values[end : end + n], values[begin:end], n)
            fcollect(team, collected[k * n * size :], values[end : end + n], n)
            sync(team)

    return kernel


CHAIN = {
    scope: chain(
        *(getattr(shmem, name + scope) for name in ("sum_reduce", "fcollect", "team_sync"))
    )
    for scope in LAUNCH
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scope", LAUNCH)
def test_rounds_in_one_kernel(job, place, show, scope, kind):
    rounds, n = 4, 10
    with team_of(kind, job.n_pes) as (team, members):
        count = len(members)
        start = np.zeros((rounds + 1) * n, np.uint32)
        start[:n] = np.arange(n) + 100 * job.my_pe
        values, collected = place(start), place(np.zeros(rounds * n * count, np.uint32))
        if team is not None:
            me = members.index(job.my_pe)
            CHAIN[scope][LAUNCH[scope]](team, values, collected, rounds, n, me, count)
        got = show(collected).reshape(rounds, count, n)
        if team is not None:
            total = sum(np.arange(n, dtype=np.uint32) + np.uint32(100 * pe) for pe in members)
            for k in range(rounds):
                assert (got[k] == total).all()
                total = total * np.uint32(count)


@cuda.jit
def at_once(team, other, a, b, rounds):
    """Block 0 is busy with one team, block 1 with another, at their own speeds."""
    n = 12
    for k in range(rounds):
        if cuda.blockIdx.x == 0:
            shmem.sum_reduce_work_group(
                team, a[(k + 1) * n : (k + 2) * n], a[k * n : (k + 1) * n], n
            )
        else:
            shmem.max_reduce_work_group(other, b[(k + 1) * n :], b[k * n :], n)
            if k % 3 == 0:
                shmem.team_sync_work_group(other)


def test_two_teams_in_two_blocks_at_once(job, place, show):
    rounds, n = (300, 12) if job.device == "cuda" else (6, 12)
    with team_of("reversed", job.n_pes) as (team, _):
        start = np.zeros((rounds + 1) * n, np.uint32)
        start[:n] = np.arange(n) + 10 * job.my_pe + 1
        a, b = place(start), place(start)
        at_once[2, 40](shmem.TEAM_WORLD, team, a, b, rounds)
        sums, largest = show(a).reshape(-1, n), show(b).reshape(-1, n)
        total = sum(
            np.arange(n, dtype=np.uint32) + np.uint32(10 * pe + 1) for pe in range(job.n_pes)
        )
        for k in range(1, rounds + 1):
            assert (sums[k] == total).all()
            assert (largest[k] == np.arange(n) + 10 * (job.n_pes - 1) + 1).all()
            total = total * np.uint32(job.n_pes)


def store_and_sync(routine):
    @cuda.jit
    def kernel(team, mine, seen, members):
        first = cuda.grid(1) == 0
        if first:
            mine[0] = shmem.my_pe() + 1  # a plain store to the own memory: what it makes visible
        routine(team)
        if first:
            for m in range(members.size):
                seen[m] = shmem.g(mine, members[m])

    return kernel


SYNC = by_scope(store_and_sync, "team_sync")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scope", LAUNCH)
def test_sync_makes_own_stores_visible_to_the_team(job, place, show, scope, kind):
    with team_of(kind, job.n_pes) as (team, members):
        mine, seen = place(np.zeros(1, np.int64)), place(np.zeros(len(members), np.int64))
        pes = place(np.array(members, np.int32))
        if team is not None:
            SYNC[scope][LAUNCH[scope]](team, mine, seen, pes)
        got = show(seen)
        if team is not None:
            assert got.tolist() == [pe + 1 for pe in members]
