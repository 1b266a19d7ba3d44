# SPDX-License-Identifier: BSD-3-Clause
"""Data collectives of teams from kernels, at every scope, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from numba import cuda
from team_kinds import KINDS, LAUNCH, by_scope, fault_of, team_of, values_of

import pyshmem
from pyshmem import cutover
from pyshmem import device as shmem

SIZES = (0, 1, 7, 96, 401)
DTYPES = (
    "int8", "uint16", "float16", "int32", "float32", "uint64", "complex64", "complex128", "bool",
)  # fmt: skip
GUARD = 3  # elements on either side that nobody may touch; they misalign the array, too


def plain(routine):
    @cuda.jit
    def kernel(team, dest, source, at, nelems):
        routine(team, dest[at:], source[at:], nelems)

    return kernel


def rooted(routine):
    @cuda.jit
    def kernel(team, dest, source, at, nelems, root):
        routine(team, dest[at:], source[at:], nelems, root)

    return kernel


def strided(routine):
    @cuda.jit
    def kernel(team, dest, source, at, dst, sst, nelems):
        routine(team, dest[at:], source[at:], dst, sst, nelems)

    return kernel


FCOLLECT, COLLECT = by_scope(plain, "fcollect"), by_scope(plain, "collect")
ALLTOALL, ALLTOALLS = by_scope(plain, "alltoall"), by_scope(strided, "alltoalls")
BROADCAST = by_scope(rooted, "broadcast")


def guarded(values, at=GUARD):
    """``values`` with ``at`` untouchable elements before them and GUARD behind."""
    return np.concatenate([np.ones(at, values.dtype), values, np.ones(GUARD, values.dtype)])


def expected_of(name, members, me, n, dtype, root):
    """What ``dest`` of the team's PE ``me`` holds."""
    if name == "broadcast":
        return values_of(members[root], n, dtype)
    if name == "fcollect":
        return np.concatenate([values_of(pe, n, dtype) for pe in members])
    blocks = [values_of(pe, n * len(members), dtype)[me * n : (me + 1) * n] for pe in members]
    return np.concatenate(blocks)


def check(job, place, show, kernels, name, kind, scope, dtype, n, at=GUARD):
    """One collective on one team, and that nothing beside its result has changed."""
    with team_of(kind, job.n_pes) as (team, members):
        count, root = len(members), n % len(members)
        length = {"broadcast": n}.get(name, n * count)
        send = n * count if name == "alltoall" else n
        source = place(guarded(values_of(job.my_pe, send, dtype), at))
        dest = place(guarded(np.zeros(length, dtype), at))
        arguments = (at, n, root) if name == "broadcast" else (at, n)
        if team is not None:
            kernels[scope][LAUNCH[scope]](team, dest, source, *arguments)
        got = show(dest)
        wanted = np.zeros(length, dtype)
        if team is not None:
            wanted = expected_of(name, members, members.index(job.my_pe), n, dtype, root)
        assert (got == guarded(wanted, at)).all()


ROUTINES = {"broadcast": BROADCAST, "fcollect": FCOLLECT, "alltoall": ALLTOALL}


@pytest.mark.parametrize("ll", ["0", "never"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scope", LAUNCH)
@pytest.mark.parametrize("name", ROUTINES)
def test_teams_scopes_and_sizes(job, place, show, name, scope, kind, ll):
    """With flags behind the data, and in it."""
    with cutover.forced("ll", ll):
        pyshmem.barrier_all()
        for n in SIZES:
            check(job, place, show, ROUTINES[name], name, kind, scope, "int32", n)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ROUTINES)
def test_every_width_of_dtype(job, place, show, name, dtype):
    check(job, place, show, ROUTINES[name], name, "reversed", "_work_group", dtype, 33)


@pytest.mark.parametrize("scope", LAUNCH)
@pytest.mark.parametrize("name", ROUTINES)
def test_long_and_aligned(job, place, show, name, scope):
    """Beyond where members of a broadcast fetch for themselves."""
    check(job, place, show, ROUTINES[name], name, "reversed", scope, "int64", 2050, at=0)


@pytest.mark.parametrize("path", ["0", "never"])
@pytest.mark.parametrize("scope", ["", "_work_group", "_grid"])
@pytest.mark.parametrize("name", ROUTINES)
def test_by_either_path(job, place, show, name, scope, path):
    """All by the copy engine, and nothing by it."""
    with cutover.forced("put", path), cutover.forced("get", path), cutover.forced("ll", 0):
        pyshmem.barrier_all()
        for n in (1, 600, 2100):
            check(job, place, show, ROUTINES[name], name, "reversed", scope, "int32", n)


@pytest.mark.parametrize("root", range(4))
def test_any_root_and_in_place(job, place, show, root):
    root %= job.n_pes
    for n in (5, 3000):
        array = place(values_of(job.my_pe, n, "float64"))
        BROADCAST["_work_group"][1, 40](shmem.TEAM_WORLD, array, array, 0, n, root)
        assert (show(array) == values_of(root, n, "float64")).all()


@pytest.mark.parametrize("ll", ["0", "500", "never"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scope", LAUNCH)
def test_collect_takes_a_count_from_each(job, place, show, scope, kind, ll):
    """None from some; from one alone, too. Flags in the data of none, of some members, of all."""
    with cutover.forced("ll", ll), team_of(kind, job.n_pes) as (team, members):
        for counts in (
            [5 * m % 7 for m in members],
            [300 if m == members[-1] else 0 for m in members],
        ):
            total = sum(counts)
            source = place(guarded(values_of(job.my_pe, 400, "int32")))
            dest = place(guarded(np.zeros(total, np.int32)))
            wanted = np.zeros(total, np.int32)
            if team is not None:
                own = counts[members.index(job.my_pe)]
                COLLECT[scope][LAUNCH[scope]](team, dest, source, GUARD, own)
                parts = [
                    values_of(pe, 400, "int32")[:c] for pe, c in zip(members, counts, strict=True)
                ]
                wanted = np.concatenate(parts)
            assert (show(dest) == guarded(wanted)).all()


def spread_out(values, stride, length):
    array = np.zeros(length, values.dtype)
    array[: len(values) * stride : stride] = values
    return array


@pytest.mark.parametrize("dtype", ["int8", "float16", "int32", "int64", "complex128"])
@pytest.mark.parametrize(("dst", "sst"), [(1, 1), (2, 3), (4, 1)])
@pytest.mark.parametrize("scope", LAUNCH)
def test_alltoalls_keeps_the_gaps(job, place, show, scope, dst, sst, dtype):
    for n in (0, 1, 9):
        with team_of("reversed", job.n_pes) as (team, members):
            count = n * len(members)
            sent = spread_out(values_of(job.my_pe, count, dtype), sst, count * sst)
            source, dest = place(guarded(sent)), place(guarded(np.zeros(count * dst, dtype)))
            ALLTOALLS[scope][LAUNCH[scope]](team, dest, source, GUARD, dst, sst, n)
            wanted = expected_of("alltoall", members, members.index(job.my_pe), n, dtype, 0)
            assert (show(dest) == guarded(spread_out(wanted, dst, count * dst))).all()


# -- mistakes: every member makes them, so none waits for another ----------------------------------


def test_a_root_outside_the_team(job, place):
    array = place(np.zeros(4, np.int32))
    for root in (-1, job.n_pes):
        message = fault_of(
            lambda root=root: BROADCAST[""][1, 1](shmem.TEAM_WORLD, array, array, 0, 4, root)
        )
        assert "broadcast" in message
        assert f"pe {root} is not one of" in message


def test_more_elements_than_the_arrays_hold(job, place):
    array = place(np.zeros(4 * job.n_pes, np.int32))
    more = 4 * job.n_pes + 1
    message = fault_of(lambda: FCOLLECT[""][1, 1](shmem.TEAM_WORLD, array, array, 0, more))
    assert "fcollect" in message
    assert f"nelems {more}" in message


def test_collect_into_too_little_copies_nothing(job, place, show):
    source, dest = place(np.ones(3, np.int32)), place(np.zeros(3 * job.n_pes - 1, np.int32))
    message = fault_of(lambda: COLLECT["_warp"][1, 32](shmem.TEAM_WORLD, dest, source, 0, 3))
    assert "collect" in message
    assert f"nelems {3 * job.n_pes}" in message
    assert (show(dest) == 0).all()


def test_a_stride_of_zero(job, place):
    array = place(np.zeros(8 * job.n_pes, np.int32))
    message = fault_of(lambda: ALLTOALLS[""][1, 1](shmem.TEAM_WORLD, array, array, 0, 0, 1, 2))
    assert "alltoalls" in message
    assert "stride" in message
