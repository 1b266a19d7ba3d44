# SPDX-License-Identifier: BSD-3-Clause
"""Collectives in the order of a stream, which are kernels of the device library, alone and in graphs."""

from __future__ import annotations

import contextlib
import os

import numpy as np
import pytest
import reference

import pyshmem
from pyshmem._core.type_table import REDUCE_OPS, elements_of


@pytest.fixture
def everyone(job):
    """``everyone(count, dtype)``: the arrays of all PEs, in order."""
    return lambda count, dtype: [reference.pattern(count, dtype, pe) for pe in range(job.n_pes)]


def result(stream, array):
    stream.synchronize()
    return pyshmem.to_numpy(array)


COUNTS = [1, 13, 40_000]


# ---- data that is moved ----------------------------------------------------------------------------


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("dtype", ["int8", "float32", "complex128"])
def test_broadcast(job, stream, on_gpu, everyone, dtype, count):
    parts = everyone(count, dtype)
    for root in {0, job.n_pes - 1}:
        source, dest = on_gpu(parts[job.my_pe]), on_gpu(np.zeros(count, dtype))
        pyshmem.barrier_all()
        pyshmem.broadcast(dest, source, root, stream=stream)
        assert reference.same(result(stream, dest), parts[root])


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("dtype", ["int16", "float64"])
def test_fcollect_and_alltoall(job, stream, on_gpu, everyone, dtype, count):
    parts = everyone(count * job.n_pes, dtype)
    mine = parts[job.my_pe]
    dest, back = on_gpu(np.zeros_like(mine)), on_gpu(np.zeros_like(mine))
    source = on_gpu(mine)
    pyshmem.barrier_all()
    pyshmem.fcollect(dest, source, nelems=count, stream=stream)
    pyshmem.alltoall(back, source, stream=stream)
    assert reference.same(result(stream, dest), np.concatenate([p[:count] for p in parts]))
    block = slice(job.my_pe * count, (job.my_pe + 1) * count)
    assert reference.same(result(stream, back), np.concatenate([p[block] for p in parts]))


def test_collect_takes_another_number_of_each(job, stream, on_gpu, everyone):
    parts = everyone(50, "int32")
    counts = [3 * pe for pe in range(job.n_pes)]
    dest = on_gpu(np.full(sum(counts) + 2, -1, np.int32))
    source = on_gpu(parts[job.my_pe])
    pyshmem.barrier_all()
    pyshmem.collect(dest, source, nelems=counts[job.my_pe], stream=stream)
    whole = [p[:n] for p, n in zip(parts, counts, strict=True)]
    expected = np.concatenate([*whole, np.full(2, -1, np.int32)])
    assert reference.same(result(stream, dest), expected)


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32", "int64", "complex128"])
def test_alltoalls(job, stream, on_gpu, everyone, dtype):
    n, dst, sst, count = job.n_pes, 2, 3, 5
    parts = everyone(n * count * sst, dtype)
    source, dest = on_gpu(parts[job.my_pe]), on_gpu(np.zeros(n * count * dst, dtype))
    pyshmem.barrier_all()
    pyshmem.alltoalls(dest, source, dst=dst, sst=sst, nelems=count, stream=stream)
    expected = np.zeros(n * count * dst, dtype)
    for pe in range(n):
        taken = parts[pe][job.my_pe * count * sst :: sst][:count]
        expected[pe * count * dst :: dst][:count] = taken
    assert reference.same(result(stream, dest), expected)


# ---- reductions and scans --------------------------------------------------------------------------

TYPED = [
    (op, element.dtype)
    for op, family in zip(REDUCE_OPS, "tttmmss", strict=True)
    for element in elements_of(family)
    if element.dtype != "longdouble"
]


@pytest.mark.parametrize(("op", "dtype"), TYPED)
def test_reductions(job, stream, on_gpu, op, dtype):
    parts = [reference.factors(33, dtype, pe) for pe in range(job.n_pes)]
    source, dest = on_gpu(parts[job.my_pe]), on_gpu(np.zeros_like(parts[0]))
    pyshmem.barrier_all()
    getattr(pyshmem, f"{op}_reduce")(dest, source, stream=stream)
    assert reference.same(result(stream, dest), reference.reduce(op, parts))


@pytest.mark.parametrize("count", [1, 500, 40_000])
@pytest.mark.parametrize(("op", "dtype"), [("sum", "float32"), ("min", "int16"), ("xor", "uint64")])
def test_reductions_that_are_scattered(job, stream, on_gpu, everyone, op, dtype, count):
    parts = everyone(count * job.n_pes, dtype)
    source, dest = on_gpu(parts[job.my_pe]), on_gpu(np.zeros(count, dtype))
    pyshmem.barrier_all()
    getattr(pyshmem, f"{op}_reduce_scatter")(dest, source, stream=stream)
    whole = reference.reduce(op, parts)
    own = whole[job.my_pe * count : (job.my_pe + 1) * count]
    assert reference.same(result(stream, dest), own)


@pytest.mark.parametrize("count", [1, 1000, 70_000])
def test_sums_of_every_size_in_place(job, stream, on_gpu, everyone, count):
    parts = everyone(count, "float32")
    array = on_gpu(parts[job.my_pe])
    pyshmem.barrier_all()
    pyshmem.sum_reduce(array, array, stream=stream)
    assert reference.same(result(stream, array), reference.reduce("sum", parts))


def test_scans(job, stream, on_gpu, everyone):
    parts = everyone(20, "int64")
    source = on_gpu(parts[job.my_pe])
    within, before = on_gpu(np.zeros(20, np.int64)), on_gpu(np.zeros(20, np.int64))
    pyshmem.barrier_all()
    pyshmem.sum_inscan(within, source, stream=stream)
    pyshmem.sum_exscan(before, source, stream=stream)
    assert reference.same(result(stream, within), sum(parts[: job.my_pe + 1]))
    expected = sum(parts[: job.my_pe], np.zeros(20, np.int64))
    assert reference.same(result(stream, before), expected)


def test_nothing_is_moved_of_empty_arrays(job, stream, on_gpu):
    empty = on_gpu(np.zeros(0, np.float32))
    pyshmem.barrier_all()
    pyshmem.sum_reduce(empty, empty, stream=stream)
    pyshmem.fcollect(empty, empty, stream=stream)
    stream.synchronize()


OPERATIONS = ("broadcast", "fcollect", "alltoall", "reduce", "reduce_scatter")


@pytest.fixture
def ways():
    """``ways(way, blocks, threads)``: how collectives are done from now on."""

    def choose(way, blocks, threads):
        for op in OPERATIONS:
            possible = "direct" if way == "engine" and "reduce" in op else way
            pyshmem.cutover.set_stream_rows(op, [("never", possible, blocks, threads)])

    yield choose
    for op in OPERATIONS:
        pyshmem.cutover.set_stream_rows(op, None)


@pytest.mark.parametrize(("dtype", "skip"), [("float32", 0), ("float16", 1)])
def test_all_ways_with_grids_that_change(job, stream, on_gpu, everyone, ways, dtype, skip):
    """One counter numbers the calls of all grids; ``skip`` elements leave arrays unaligned."""
    n, reversed_team = job.n_pes, pyshmem.Team.from_pes(range(job.n_pes - 1, -1, -1))
    grids = [
        ("ll", 1, 32),
        ("direct", 2, 3),
        ("ll", 3, 2),
        ("engine", 1, 4),
        ("ll", 2, 5),
        ("direct", 1, 4),
    ]
    for turn, (grid, count) in enumerate(zip(grids, (3, 900, 700, 333, 0, 50), strict=True)):
        parts = everyone(count * n + skip, dtype)
        source, total = on_gpu(parts[job.my_pe])[skip:], on_gpu(np.zeros_like(parts[0]))[skip:]
        whole, turned, spread = (on_gpu(np.zeros_like(parts[0]))[skip:] for _ in range(3))
        block = on_gpu(np.zeros(count, dtype))
        pyshmem.barrier_all()
        ways(*grid)
        pyshmem.sum_reduce(total, source, stream=stream)
        pyshmem.fcollect(whole, source, nelems=count, stream=stream)
        pyshmem.alltoall(turned, source, nelems=count, team=reversed_team, stream=stream)
        pyshmem.broadcast(spread, source, turn % n, stream=stream)
        pyshmem.sum_reduce_scatter(block, source, nelems=count, stream=stream)
        pyshmem.sum_reduce(source, source, stream=stream)
        parts = [part[skip:] for part in parts]
        expected, me = reference.reduce("sum", parts), job.my_pe
        assert reference.same(result(stream, source), expected)
        assert reference.same(pyshmem.to_numpy(total), expected)
        assert reference.same(pyshmem.to_numpy(block), expected[me * count : (me + 1) * count])
        gathered = np.concatenate([part[:count] for part in parts])
        assert reference.same(pyshmem.to_numpy(whole), gathered)
        mine = slice((n - 1 - me) * count, (n - me) * count)
        exchanged = np.concatenate([part[mine] for part in reversed(parts)])
        assert reference.same(pyshmem.to_numpy(turned), exchanged)
        assert reference.same(pyshmem.to_numpy(spread), parts[turn % n])
    pyshmem.barrier_all()
    reversed_team.destroy()


def test_copy_engines_in_a_graph(job, stream, on_gpu, everyone, ways):
    n, me, count = job.n_pes, job.my_pe, 50
    parts = everyone(count, "float32")
    own, sent, whole = (on_gpu(part) for part in (parts[me], parts[me], np.zeros(n * count, "f")))
    nothing = on_gpu(np.zeros(0, np.float32))
    ways("engine", 1, 32)
    pyshmem.streams.prepare("fcollect", "broadcast", "alltoall")
    pyshmem.barrier_all()
    with stream.capture() as graph:
        pyshmem.fcollect(whole, own, stream=stream)
        pyshmem.broadcast(sent, own, n - 1, stream=stream)
        pyshmem.alltoall(nothing, nothing, stream=stream)
    for _ in range(3):
        graph.replay(stream)
    assert reference.same(result(stream, whole), np.concatenate(parts))
    assert reference.same(pyshmem.to_numpy(sent), parts[n - 1])
    pyshmem.barrier_all()


# ---- synchronisation, teams ------------------------------------------------------------------------


def test_syncs_let_nobody_through_early(job, right, left, stream, on_gpu):
    box, copy = on_gpu([-1]), on_gpu([-1])
    pyshmem.barrier_all()
    for turn in range(5):
        pyshmem.p(box, turn, right, stream=stream)
        pyshmem.barrier_all(stream=stream)
        pyshmem.put(copy, box, job.my_pe, stream=stream)
        pyshmem.fence(stream=stream)
        pyshmem.quiet(stream=stream)
        pyshmem.sync_all(stream=stream)
        assert result(stream, copy).tolist() == [turn]


def test_teams_on_streams_of_their_own(job, on_gpu, stream):
    """Two streams, two teams, in another order on each PE: they do not wait for each other."""
    halves = pyshmem.TEAM_WORLD.split(job.my_pe % 2, job.my_pe)
    other = pyshmem.streams.Stream()
    mine, wide = on_gpu([job.my_pe + 1]), on_gpu([job.my_pe + 1])
    a, b = on_gpu([0]), on_gpu([0])
    pyshmem.streams.prepare()
    pyshmem.streams.prepare("sum_reduce", dtype=np.int64)
    pyshmem.barrier_all()
    calls = [
        lambda: pyshmem.sum_reduce(a, mine, team=halves, stream=stream),
        lambda: pyshmem.sum_reduce(b, wide, stream=other),
    ]
    for call in calls if job.my_pe % 2 else reversed(calls):
        call()
    halves.sync(stream=stream)
    members = [pe + 1 for pe in range(job.n_pes) if pe % 2 == job.my_pe % 2]
    assert result(stream, a).tolist() == [sum(members)]
    assert result(other, b).tolist() == [sum(range(job.n_pes + 1))]
    other.destroy()
    pyshmem.barrier_all()
    halves.destroy()


def test_channels_of_one_team_on_streams_of_their_own(job, on_gpu, stream):
    """The same team on two streams, in another order on each PE."""
    first, second = pyshmem.TEAM_WORLD.channels(2)
    other = pyshmem.streams.Stream()
    mine, a, b = on_gpu([job.my_pe + 1]), on_gpu([0]), on_gpu([0])
    pyshmem.streams.prepare("sum_reduce", "max_reduce", dtype=np.int64)
    pyshmem.barrier_all()
    calls = [
        lambda: pyshmem.sum_reduce(a, mine, team=first, stream=stream),
        lambda: pyshmem.max_reduce(b, mine, team=second, stream=other),
    ]
    for call in calls if job.my_pe % 2 else reversed(calls):
        call()
    second.sync(stream=other)
    assert result(stream, a).tolist() == [sum(range(job.n_pes + 1))]
    assert result(other, b).tolist() == [job.n_pes]
    other.destroy()


# ---- blocking calls --------------------------------------------------------------------------------


@pytest.mark.parametrize("count", COUNTS)
def test_blocking_calls_on_arrays_of_the_device_heap(job, on_gpu, everyone, count):
    if job.device == "none":
        pytest.skip("the job has no device heap")
    parts = everyone(count, "float32")
    source, dest = on_gpu(parts[job.my_pe]), on_gpu(np.zeros(count, np.float32))
    all_of_them = on_gpu(np.zeros(count * job.n_pes, np.float32))
    pyshmem.barrier_all()
    pyshmem.max_reduce(dest, source)
    assert reference.same(pyshmem.to_numpy(dest), reference.reduce("max", parts))
    pyshmem.fcollect(all_of_them, source)
    assert reference.same(pyshmem.to_numpy(all_of_them), np.concatenate(parts))
    pyshmem.broadcast(dest, source, job.n_pes - 1)
    assert reference.same(pyshmem.to_numpy(dest), parts[-1])
    mixed = pyshmem.zeros(count, dtype=np.float32)
    pyshmem.sum_reduce(mixed, source)
    assert reference.same(np.asarray(mixed), reference.reduce("sum", parts))


# ---- graphs ----------------------------------------------------------------------------------------


def test_a_hundred_replays_of_ten_kinds_on_two_streams(job, right, left, on_gpu, stream):
    n, count, turns = job.n_pes, 24, int(os.environ.get("REPLAYS") or 100)
    other = pyshmem.streams.Stream()
    twin = pyshmem.TEAM_WORLD.split_strided(0, 1, n)
    source = on_gpu(np.full(count, job.my_pe + 1, np.int32))
    moved, root, total = (on_gpu(np.zeros(count, np.int32)) for _ in range(3))
    gathered, turned = (on_gpu(np.zeros(count * n, np.int32)) for _ in range(2))
    blocks = on_gpu(np.arange(count * n, dtype=np.int32) + 1000 * job.my_pe)
    counter, sums = on_gpu(np.zeros(1, np.int64)), on_gpu(np.zeros(1, np.int64))
    scanned, old = on_gpu(np.zeros(count, np.int32)), on_gpu(np.zeros(1, np.int64))
    pyshmem.streams.prepare()
    pyshmem.streams.prepare("sum_reduce", "sum_inscan", dtype=[np.int32, np.int64])
    pyshmem.barrier_all()
    with stream.capture() as graph:
        pyshmem.put(moved, source, right, stream=stream)
        pyshmem.broadcast(root, source, n - 1, stream=stream)
        pyshmem.fcollect(gathered, source, stream=stream)
        pyshmem.atomic_add(counter, 1, right, stream=stream)
        pyshmem.barrier_all(stream=stream)
    with other.capture() as second:
        pyshmem.sum_reduce(total, source, team=twin, stream=other)
        pyshmem.alltoall(turned, blocks, team=twin, stream=other)
        pyshmem.sum_inscan(scanned, source, team=twin, stream=other)
        pyshmem.atomic_fetch_inc_nbi(old, sums, right, stream=other)
        twin.sync(stream=other)
    for _ in range(turns):
        graph.replay(stream)
        second.replay(other)
    assert result(stream, moved).tolist() == [left + 1] * count
    other.synchronize()
    pyshmem.barrier_all()
    assert pyshmem.to_numpy(root).tolist() == [n] * count
    assert pyshmem.to_numpy(gathered).tolist() == np.repeat(np.arange(n) + 1, count).tolist()
    assert pyshmem.to_numpy(counter).tolist() == [turns]
    assert pyshmem.to_numpy(total).tolist() == [n * (n + 1) // 2] * count
    own = np.arange(count) + count * job.my_pe
    of_all = np.concatenate([own + 1000 * pe for pe in range(n)])
    assert pyshmem.to_numpy(turned).tolist() == of_all.tolist()
    assert pyshmem.to_numpy(scanned).tolist() == [sum(range(job.my_pe + 2))] * count
    assert pyshmem.to_numpy(old).tolist() == [turns - 1]
    other.destroy()
    pyshmem.barrier_all()
    twin.destroy()


# ---- mistakes --------------------------------------------------------------------------------------


def test_a_first_use_in_a_capture_says_what_to_call(job, on_gpu, stream):
    array = on_gpu(np.zeros(4, np.uint16))
    with (
        pytest.raises(pyshmem.ShmemError, match=r"prepare\('sum_exscan', dtype='uint16'\)"),
        stream.capture(),
    ):
        pyshmem.sum_exscan(array, array, stream=stream)


def test_a_fault_of_a_kernel_is_raised_by_the_next_call(job, on_gpu, stream):
    """A dest that does not hold what all PEs give, which only the kernel can know."""
    if job.n_pes == 1:
        pytest.skip("one PE's own elements are checked on the host")
    source, dest = on_gpu(np.zeros(8, np.int32)), on_gpu(np.zeros(8, np.int32))
    pyshmem.barrier_all()
    pyshmem.collect(dest, source, stream=stream)
    with pytest.raises(pyshmem.KernelFault, match=r"kernel collect\(stream=\), block 0"):
        stream.synchronize()
    with contextlib.suppress(pyshmem.KernelFault):  # of a thread that found it later
        stream.synchronize()
    pyshmem.barrier_all()


def test_arguments_are_checked_before_anything_is_started(job, on_gpu, stream):
    array = on_gpu(np.zeros(8, np.float32))
    with pytest.raises(ValueError, match="root"):
        pyshmem.broadcast(array, array, job.n_pes, stream=stream)
    with pytest.raises(TypeError, match="dtype"):
        pyshmem.or_reduce(array, array, stream=stream)
    if job.device == "cuda":
        with pytest.raises(ValueError, match="host heap"):
            pyshmem.sum_reduce(array, pyshmem.zeros(8, dtype=np.float32), stream=stream)
