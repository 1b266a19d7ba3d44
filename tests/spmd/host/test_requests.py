# SPDX-License-Identifier: BSD-3-Clause
"""Non-blocking collectives: the results of the blocking ones, in any order of waits; errors; await."""

from __future__ import annotations

import asyncio
import gc
import time
import warnings
import weakref

import numpy as np
import pytest
from reference import dtype_of, pattern, same

import pyshmem
from pyshmem import TEAM_WORLD, Team
from pyshmem._core.type_table import REDUCE_OPS, elements_of

FAMILY = {"and": "t", "or": "t", "xor": "t", "max": "m", "min": "m", "sum": "s", "prod": "s"}
REDUCTIONS = [(op, e.dtype) for op in REDUCE_OPS for e in elements_of(FAMILY[op])]
SUMS = [e.dtype for e in elements_of("s")]
COUNTS = [0, 1, 7, 1025, 40_001]


@pytest.fixture(params=["world", "reversed", "parity", "alone"])
def team(request, job):
    """A team that holds this PE."""
    n = job.n_pes
    if request.param == "world":
        yield TEAM_WORLD
        return
    made = {
        "reversed": lambda: TEAM_WORLD.split_strided(n - 1, -1, n),
        "parity": lambda: TEAM_WORLD.split(job.my_pe % 2),
        "alone": lambda: TEAM_WORLD.split(job.my_pe),
    }[request.param]()
    yield made
    made.destroy()


@pytest.fixture
def both(make, heap):
    """``both(name, source, room, *arguments)``: dest of the blocking form, and of the other one."""

    def run(name, source, room, *arguments, **options):
        given = make(source, heap)
        dests = [make(pattern(room, source.dtype.name, 60), heap) for _ in range(2)]
        getattr(pyshmem, name)(dests[0], given, *arguments, **options)
        request = getattr(pyshmem, f"{name}_nb")(dests[1], given, *arguments, **options)
        request.wait()
        assert request.test()
        return [pyshmem.to_numpy(dest) for dest in dests]

    return run


# ---- the same results as of the blocking routines -------------------------------------------------


@pytest.mark.parametrize(("op", "dtype"), REDUCTIONS)
def test_reductions_give_the_same_bits(job, both, op, dtype):
    expected, found = both(f"{op}_reduce", pattern(37, dtype, job.my_pe), 37)
    assert same(found, expected)


@pytest.mark.parametrize("dtype", SUMS)
@pytest.mark.parametrize("name", ["sum_inscan", "sum_exscan"])
def test_scans_give_the_same_bits(job, both, team, name, dtype):
    expected, found = both(name, pattern(333, dtype, job.my_pe), 333, team=team)
    assert same(found, expected)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("name", ["fcollect", "collect", "alltoall", "broadcast", "sum_reduce"])
def test_every_size_on_every_team(job, both, team, name, count):
    nelems, room = count, count * job.n_pes  # arrays are the same size everywhere
    if name == "collect":
        nelems = count // (1 + team.my_pe() % 2)
    source = pattern(room if name == "alltoall" else count, "int64", job.my_pe)
    root = [team.n_pes() - 1] if name == "broadcast" else []
    expected, found = both(name, source, room, *root, nelems=nelems, team=team)
    assert same(found, expected)


@pytest.mark.parametrize(("dst", "sst"), [(1, 3), (2, 1), (3, 4)])
def test_alltoalls_keeps_to_its_strides(job, both, team, dst, sst):
    size = 4 * job.n_pes
    source, options = pattern(size * sst, "float32", job.my_pe), {"dst": dst, "sst": sst}
    expected, found = both("alltoalls", source, size * dst, nelems=4, team=team, **options)
    assert same(found, expected)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int32", "complex128"])
@pytest.mark.parametrize("name", ["sum_reduce", "sum_inscan", "sum_exscan"])
def test_dest_may_be_the_source(job, make, heap, name, dtype):
    values = pattern(50_001, dtype, job.my_pe)
    one, other = make(values, heap), make(values, heap)
    getattr(pyshmem, name)(one, one)
    getattr(pyshmem, f"{name}_nb")(other, other).wait()
    assert pyshmem.to_numpy(other).dtype == dtype_of(dtype)
    assert same(pyshmem.to_numpy(other), pyshmem.to_numpy(one))


# ---- several at a time -----------------------------------------------------------------------------


def test_many_are_outstanding_and_waited_for_in_reverse(job, make):
    """More than there are slots: the later ones wait for the earlier ones."""
    n, me = job.n_pes, job.my_pe
    pairs = [(make(np.zeros(5, int)), make(np.full(5, me + k))) for k in range(30)]
    requests = [pyshmem.sum_reduce_nb(dest, source) for dest, source in pairs]
    for k in reversed(range(30)):
        requests[k].wait()
        assert (pairs[k][0] == n * k + n * (n - 1) // 2).all()


def test_blocking_ones_and_other_work_go_between(job, make, right):
    n, me = job.n_pes, job.my_pe
    source, dest = make(np.arange(3000) + me), make(np.zeros(3000 * n, int))
    cell, total = make(np.zeros(1, int)), make(np.zeros(1, int))
    request = pyshmem.fcollect_nb(dest, source)
    pyshmem.p(cell, me, right)
    pyshmem.barrier_all()
    pyshmem.sum_reduce(total, cell)
    assert total[0] == n * (n - 1) // 2
    request.wait()
    assert (dest.reshape(n, -1) == np.arange(3000) + np.arange(n)[:, None]).all()


def test_a_wait_of_one_pe_is_served_by_the_barrier_of_others(job, make):
    """Requests move on in every wait: without that this would never end."""
    source, dest = make(np.full(9, 4)), make(np.zeros(9, int))
    request = pyshmem.broadcast_nb(dest, source, 0)
    if job.my_pe == 0:
        request.wait()
    pyshmem.barrier_all()
    request.wait()
    assert (dest == 4).all()


def test_two_teams_are_independent(job, make):
    n, me = job.n_pes, job.my_pe
    backward = TEAM_WORLD.split_strided(n - 1, -1, n)
    source, one, two = make(np.full(4, me)), make(np.zeros(4, int)), make(np.zeros(4, int))
    requests = [
        pyshmem.broadcast_nb(one, source, 0),
        pyshmem.broadcast_nb(two, source, 0, team=backward),
    ]
    for request in requests if me % 2 else reversed(requests):
        request.wait()
    assert (one == 0).all()
    assert (two == n - 1).all()
    backward.destroy()


def test_sync_waits_for_all_and_barrier_for_puts(job, make, left, right):
    cell = make(np.full(1, -1))
    pyshmem.put_nbi(cell, np.full(1, job.my_pe), right)
    request = pyshmem.barrier_nb()
    request.wait()
    assert cell[0] == left
    seen = make(np.zeros(job.n_pes, int))
    if job.my_pe != job.n_pes - 1:
        request = pyshmem.sync_nb()
        early = request.test()
        pyshmem.put(seen[job.my_pe : job.my_pe + 1], np.full(1, int(early) + 1), job.n_pes - 1)
    else:
        for pe in range(job.n_pes - 1):
            pyshmem.wait_until(seen[pe : pe + 1], pyshmem.CMP_NE, 0)
            assert seen[pe] == 1, "complete although the last PE had not begun"
        request = pyshmem.sync_nb()
    request.wait()


# ---- errors and ends ---------------------------------------------------------------------------------


def test_bad_arguments_raise_at_once(job, not_checking):
    source, dest = pyshmem.zeros(4, int), pyshmem.zeros(4, int)
    with pytest.raises(ValueError, match="root 99 is outside the team"):
        pyshmem.broadcast_nb(dest, source, 99)
    with pytest.raises(TypeError, match="float64"):
        pyshmem.xor_reduce_nb(pyshmem.zeros(2), pyshmem.zeros(2))
    with pytest.raises(ValueError, match="symmetric"):
        pyshmem.sum_reduce_nb(np.zeros(4, int), source)
    pyshmem.sum_reduce_nb(dest, source).wait()


def test_different_nelems_raise_on_all(job, checking):
    source, dest = pyshmem.ones(8, int), pyshmem.zeros(8, int)
    if job.n_pes == 1:
        pytest.skip("needs two that differ")
    request = pyshmem.sum_reduce_nb(dest, source, nelems=8 - (job.my_pe == 1))
    for _ in range(2):
        with pytest.raises(pyshmem.MismatchError, match="bytes on PE"):
            request.wait()
    with pytest.raises(pyshmem.MismatchError):
        request.test()
    assert (dest == 0).all()
    pyshmem.sum_reduce_nb(dest, source).wait()
    assert (dest == job.n_pes).all()


def test_other_routines_and_refusals_raise_on_all(job, checking):
    if job.n_pes == 1:
        pytest.skip("needs two that differ")
    source, dest = pyshmem.ones(8, int), pyshmem.zeros(8 * job.n_pes, int)
    first = job.my_pe == 0
    begin = pyshmem.fcollect_nb if first else pyshmem.sum_reduce_nb
    with pytest.raises(pyshmem.MismatchError, match="fcollect_nb"):
        begin(dest, source).wait()
    if first:
        with pytest.raises(ValueError, match="root -1"):
            pyshmem.broadcast_nb(dest, source, -1)
    else:
        request = pyshmem.broadcast_nb(dest, source, 0)
        with pytest.raises(pyshmem.MismatchError, match="PE 0 refused its arguments"):
            request.wait()


def test_collect_into_too_little_fails_on_all(job, make):
    n = job.n_pes
    source, dest = make(np.arange(4) + 1), make(np.full(4 * n, -1))
    room = 4 * n - 1 if job.my_pe == n - 1 else 4 * n
    if n == 1:
        pytest.skip("the array alone tells")
    request = pyshmem.collect_nb(dest[:room], source)
    with pytest.raises(ValueError, match=f"dest of PE {n - 1} of the team holds"):
        request.wait()
    assert (pyshmem.to_numpy(dest) == -1).all()


def test_destroy_completes_what_is_outstanding(job, make):
    team = Team.from_pes(range(job.n_pes))
    source, dest = make(np.full(6, 3)), make(np.zeros(6, int))
    request = pyshmem.sum_reduce_nb(dest, source, team=team)
    team.destroy()
    assert request.test()
    request.wait()
    assert (dest == 3 * job.n_pes).all()


def test_a_dropped_request_warns_and_completes(job, make):
    source, dest = make(np.full(6, 2)), make(np.zeros(6, int))
    pyshmem.barrier_all()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):  # of one alone, the last PE to begin may find it complete
            pyshmem.sum_reduce_nb(dest, source)
            gc.collect()
    pyshmem.sync_nb().wait()
    pyshmem.barrier_all()
    assert (dest == 2 * job.n_pes).all()
    assert all(w.category is RuntimeWarning and "dropped" in str(w.message) for w in caught)


def test_an_array_is_not_given_back_while_a_request_uses_it(job):
    source, dest = pyshmem.full(4, 3), pyshmem.zeros(4, dtype=np.int64)
    with TEAM_WORLD.split_strided(0, 1, job.n_pes) as team:
        if job.my_pe:  # under way, as PE 0 is late
            request = pyshmem.sum_reduce_nb(dest[:2], source[2:], team=team)
            for give_back in (pyshmem.free, lambda array: pyshmem.realloc(array, 9)):
                for array in (source, dest):
                    with pytest.raises(ValueError, match="sum_reduce_nb is under way and uses it"):
                        give_back(array)
            with pytest.raises(ValueError, match="max_reduce_nb: dest is that of sum_reduce_nb"):
                pyshmem.max_reduce_nb(dest[:2], source[:2], team=team)
        pyshmem.barrier_all()
        if not job.my_pe:
            request = pyshmem.sum_reduce_nb(dest[:2], source[2:], team=team)
        request.wait()
    assert dest.tolist() == [3 * job.n_pes] * 2 + [0, 0]
    pyshmem.free(source)
    pyshmem.free(dest)


def test_a_request_in_a_garbage_cycle_completes_with_its_arrays(job, make):
    begun = make(np.zeros(1, int))
    for turn in range(1, 4):
        source, dest = make(np.full(6, turn)), make(np.zeros(6, int))
        if job.my_pe == 0:
            pyshmem.wait_until(begun, pyshmem.CMP_EQ, turn * (job.n_pes - 1))
        seen = weakref.ref(dest)
        cycle = [pyshmem.sum_reduce_nb(dest, source), dest]
        cycle.append(cycle)
        del dest
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            del cycle
            gc.collect()
        kept = seen()  # until its last member, PE 0, has begun
        if job.my_pe:
            pyshmem.atomic_inc(begun, 0)
        pyshmem.sync_nb().wait()
        pyshmem.barrier_all()
        assert job.my_pe == 0 or (kept == turn * job.n_pes).all()


# ---- await -----------------------------------------------------------------------------------------


def test_tasks_await_requests_of_different_teams_side_by_side(job, make):
    team = Team.from_pes(range(job.n_pes))
    source, one, two = make(np.full(4, 5)), make(np.zeros(4, int)), make(np.zeros(4, int))
    order = []

    async def reduced(dest, on):
        await pyshmem.sum_reduce_nb(dest, source, team=on)
        order.append(int(dest[0]))

    async def main():
        await asyncio.gather(reduced(one, TEAM_WORLD), reduced(two, team))

    asyncio.run(main())
    assert order == [5 * job.n_pes] * 2
    team.destroy()


def test_others_run_while_one_awaits_and_a_cancelled_wait_can_be_made_again(job, make):
    turns = []
    flag = make(np.zeros(1, int))

    async def await_it(request):
        await request

    async def main():
        late = job.my_pe == job.n_pes - 1
        if late:
            while job.n_pes > 1 and not pyshmem.test(flag, pyshmem.CMP_EQ, job.n_pes - 1):
                await asyncio.sleep(0)
        request = pyshmem.sync_nb()
        if not late:
            task = asyncio.create_task(await_it(request))
            for _ in range(5):
                turns.append(len(turns))
                await asyncio.sleep(0)
            assert not task.done()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert not request.test()
            pyshmem.atomic_inc(flag, job.n_pes - 1)
        await request

    asyncio.run(main())
    assert turns == ([] if job.my_pe == job.n_pes - 1 else [0, 1, 2, 3, 4])


# ---- streams ---------------------------------------------------------------------------------------


def test_a_stream_waits_for_requests(job):
    """What is behind the wait sees the result, though nobody else asks for it."""
    if job.device == "none":
        pytest.skip("the job has no streams")
    stream = pyshmem.streams.Stream()
    source = pyshmem.full(1000, job.my_pe + 1, dtype=np.int64, heap="device")
    total, copy = (pyshmem.zeros(1000, dtype=np.int64, heap="device") for _ in range(2))
    expected = job.n_pes * (job.n_pes + 1) // 2
    for turn in range(3):
        pyshmem.put(total, pyshmem.to_numpy(source) * 0, job.my_pe)
        pyshmem.barrier_all()
        request = pyshmem.sum_reduce_nb(total, source)
        request.wait(stream=stream)
        pyshmem.put(copy, total, job.my_pe, stream=stream)
        if turn:  # by the thread alone, else by the wait for the stream too
            while not stream.query():
                time.sleep(1e-4)
        stream.synchronize()
        assert (pyshmem.to_numpy(copy) == expected).all()
        request.wait()
        request.wait(stream=stream)  # complete: nothing to wait for
    stream.destroy()


def test_a_captured_stream_waits_for_no_request(job):
    if job.device == "none":
        pytest.skip("the job has no streams")
    stream = pyshmem.streams.Stream()
    source, total = (pyshmem.zeros(40_000, dtype=np.int64, heap="device") for _ in range(2))
    pyshmem.barrier_all()
    if job.my_pe == 0:  # before the others begin
        request = pyshmem.sum_reduce_nb(total, source)
        if job.n_pes > 1:
            with stream.capture(), pytest.raises(pyshmem.ShmemError, match="captured"):
                request.wait(stream=stream)
    pyshmem.barrier_all()
    if job.my_pe:
        request = pyshmem.sum_reduce_nb(total, source)
    request.wait()
    stream.destroy()
