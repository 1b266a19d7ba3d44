# SPDX-License-Identifier: BSD-3-Clause
"""Data with flags in it: sizes around its units and slots, calls in a row, channels, torn units."""

from __future__ import annotations

import functools
import itertools
import time

import numpy as np
import pytest
from numba import cuda
from team_kinds import LAUNCH, by_scope, fault_of, team_of, values_of

import pyshmem
from pyshmem import cutover
from pyshmem import device as shmem
from pyshmem._core.contract import SIZES
from pyshmem._core.library import checks_deliver
from pyshmem.device.leaf.backend import CPU, SIM

#: Around a unit of 8 bytes, a piece of 16, a warp's pieces of 512.
BORDERS = (1, 7, 8, 9, 15, 16, 17, 24, 31, 33, 511, 512, 513, 520, 1040)


@pytest.fixture(autouse=True)
def always_ll():
    """Up to what a slot holds, whatever the cutover."""
    with cutover.forced("ll", "never"):
        pyshmem.barrier_all()
        yield
        pyshmem.barrier_all()


def plain(routine):
    @cuda.jit
    def kernel(team, dest, source, at, nelems):
        routine(team, dest[at:], source[at:], nelems)

    return kernel


def rooted(routine):
    @cuda.jit
    def kernel(team, dest, source, at, nelems):
        routine(team, dest[at:], source[at:], nelems, 0)

    return kernel


KERNELS = {
    "broadcast": by_scope(rooted, "broadcast"),
    **{name: by_scope(plain, name) for name in ("fcollect", "collect", "alltoall", "sum_reduce")},
    "sum_inscan": by_scope(plain, "sum_inscan"),
}


def expected_of(name, n_pes, me, n, dtype):
    """The result on a world of ``n_pes``, from ``values_of``."""
    blocks = n_pes if name == "alltoall" else 1
    sent = [values_of(pe, n * blocks, dtype) for pe in range(n_pes)]
    if name == "broadcast":
        return sent[0]
    if name in ("fcollect", "collect"):
        return np.concatenate(sent)
    if name == "alltoall":
        return np.concatenate([block[me * n : (me + 1) * n] for block in sent])
    return sum(sent[: me + 1] if name == "sum_inscan" else sent).astype(dtype)


def check(job, place, show, name, scope, dtype, n, at):
    length = {"fcollect": n * job.n_pes, "collect": n * job.n_pes, "alltoall": n * job.n_pes}
    sent = values_of(job.my_pe, n * (job.n_pes if name == "alltoall" else 1), dtype)
    source = place(np.concatenate([np.ones(at, dtype), sent]))
    dest = place(np.ones(at + length.get(name, n) + 1, dtype))
    KERNELS[name][scope][LAUNCH[scope]](shmem.TEAM_WORLD, dest, source, at, n)
    got = show(dest)
    assert (got[at:-1] == expected_of(name, job.n_pes, job.my_pe, n, dtype)).all()
    assert (got[:at] == 1).all()
    assert got[-1] == 1


@pytest.mark.parametrize("scope", LAUNCH)
@pytest.mark.parametrize("name", KERNELS)
def test_sizes_around_units_and_warps(job, place, show, name, scope):
    for n in BORDERS:
        for at in (0, 3):
            check(job, place, show, name, scope, "int8", n, at)


@pytest.mark.parametrize("n_over", [-1, 0, 1])
@pytest.mark.parametrize("name", KERNELS)
def test_sizes_around_a_slot(job, place, show, name, n_over):
    """The last size that fits a slot, and the first that goes otherwise."""
    slot = SIZES.LL_HALF_BYTES // job.n_pes // 1024 * 1024
    check(job, place, show, name, "_work_group", "int32", (slot // 2 - 16) // 4 + n_over, 0)


@pytest.mark.parametrize(
    "dtype", ["uint8", "float16", "float32", "uint64", "complex64", "complex128"]
)
@pytest.mark.parametrize("name", KERNELS)
def test_every_width(job, place, show, name, dtype):
    for n in (1, 5, 70):
        check(job, place, show, name, "_work_group", dtype, n, 1)


# -- many calls -------------------------------------------------------------------------------------


@cuda.jit
def in_a_row(team, array, copy, blocks, wrong, rounds):
    """Every kind of collective after the other, of sizes that change; counts what is wrong.

    What one stores to at other PEs they have not read since two collectives ago.
    """
    me, n = shmem.team_my_pe(team), shmem.team_n_pes(team)
    tid, step = cuda.threadIdx.x, cuda.blockDim.x
    for call in range(rounds):
        nelems = 1 + 37 * call % 60
        root = call % n
        for i in range(tid, nelems, step):
            array[i] = 100 * call + me + i
        cuda.syncthreads()
        shmem.sum_reduce_work_group(team, array, array, nelems)
        for i in range(tid, nelems, step):
            if array[i] != n * (100 * call + i) + n * (n - 1) // 2:
                cuda.atomic.add(wrong, 0, 1)
            array[i] = me + i
        cuda.syncthreads()
        shmem.broadcast_work_group(team, copy, array, nelems, root)
        for i in range(tid, nelems, step):
            if copy[i] != root + i:
                cuda.atomic.add(wrong, 0, 1)
            array[i] = 1000 * me + i + call
        cuda.syncthreads()
        shmem.fcollect_work_group(team, blocks, array, nelems)
        for i in range(tid, nelems * n, step):
            if blocks[i] != 1000 * (i // nelems) + i % nelems + call:
                cuda.atomic.add(wrong, 0, 1)
        cuda.syncthreads()


def run_in_a_row(job, place, show, team, n, rounds, threads=40):
    array, copy = place(np.zeros(60, np.int64)), place(np.zeros(60, np.int64))
    blocks, wrong = place(np.zeros(60 * n, np.int64)), place(np.zeros(1, np.int32))
    if team is not None:
        in_a_row[1, threads](team, array, copy, blocks, wrong, rounds)
    assert show(wrong)[0] == 0


@pytest.fixture
def rounds(job, near):
    """On GPUs; far calls are requests, which take some hundred times as long."""
    return 2000 if all(near(pe) for pe in range(job.n_pes)) else 40


@pytest.mark.parametrize("kind", ["world", "reversed", "odd"])
def test_calls_in_a_row(job, place, show, kind, rounds):
    with team_of(kind, job.n_pes) as (team, members):
        run_in_a_row(job, place, show, team, len(members), 40 if SIM else rounds)


@pytest.mark.parametrize("kind", ["world", "list"])
def test_calls_of_both_kinds_in_a_row(job, place, show, kind, rounds):
    """A round of flags between two of data with flags leaves both on one half."""
    with team_of(kind, job.n_pes) as (team, members), cutover.forced("ll", 300):
        pyshmem.barrier_all()
        run_in_a_row(job, place, show, team, len(members), 30 if SIM else rounds // 2)


def test_a_team_in_the_slot_of_another_starts_anew(job, place, show):
    """Units of the old team's calls, which have the numbers of the new one's, are gone."""
    for _ in range(3):
        with team_of("reversed", job.n_pes) as (team, members):
            run_in_a_row(job, place, show, team, len(members), 3)


# -- units that arrive in halves ---------------------------------------------------------------------


stored = itertools.count()


def slow():
    """Between the halves of every fifth unit."""
    if next(stored) % 5 == 0:
        time.sleep(2e-4)


def sums_wrong(job, place, show):
    """How many of some sums of changing values are wrong."""
    array, wrong = place(np.zeros(60, np.int64)), 0
    for call in range(20):
        pyshmem.put(array, np.full(60, call + (call << 40) + job.my_pe), job.my_pe)
        pyshmem.barrier_all()
        KERNELS["sum_reduce"]["_work_group"][1, 32](shmem.TEAM_WORLD, array, array, 0, 60)
        total = job.n_pes * (call + (call << 40)) + job.n_pes * (job.n_pes - 1) // 2
        wrong += int((show(array) != total).sum())
    return wrong


@pytest.mark.skipif(not SIM or CPU, reason="only interpreted kernels store what a test says")
def test_units_in_halves_are_waited_for(job, place, show, monkeypatch):
    from pyshmem.device.leaf.sim import packets

    monkeypatch.setattr(packets, "torn", slow)
    assert sums_wrong(job, place, show) == 0


@pytest.mark.skipif(not SIM or CPU, reason="only interpreted kernels store what a test says")
def test_a_protocol_that_looks_at_one_flag_is_found_out(job, place, show, p2p, monkeypatch):
    """The tear is one that a wrong protocol does not survive."""
    from pyshmem.device.leaf.sim import packets
    from pyshmem.device.team import ll

    def one_flag(address):
        low, high = (packets.lib.ishmemx_leaf_load(address + at, 8) for at in (0, 8))
        return low & 0xFFFFFFFF | (high & 0xFFFFFFFF) << 32, low >> 32

    if job.n_pes == 1 or not p2p:
        pytest.skip("nobody sends data with flags in it")
    if checks_deliver():
        pytest.skip("no PE runs while another one stores: they take turns")
    monkeypatch.setattr(packets, "torn", slow)
    monkeypatch.setattr(ll, "load_packet", one_flag)
    counts = place(np.zeros(1, np.int64))
    for _ in range(20):  # who reads when is up to the machine; all PEs see the same count
        pyshmem.put(counts, np.array([sums_wrong(job, place, show)]), job.my_pe)
        pyshmem.sum_reduce(counts, counts)
        if pyshmem.to_numpy(counts)[0]:
            return
    pytest.fail("no unit was seen in halves")


# -- mistakes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["broadcast", "fcollect", "sum_reduce"])
def test_a_call_that_is_left_out_is_not_counted(job, place, show, name):
    """By a block that is larger than the data: a few of its lanes find the mistake."""
    n, kernel = job.n_pes, KERNELS[name]["_work_group"]
    source, dest = place(np.full(2, job.my_pe)), place(np.zeros(2 * n, np.int64))
    for nelems in (3, -1, 3):
        launch = functools.partial(kernel[1, 64], shmem.TEAM_WORLD, dest, source, 0, nelems)
        assert "does not fit the arrays" in fault_of(launch)
        for _ in range(3):
            KERNELS["fcollect"]["_work_group"][1, 64](shmem.TEAM_WORLD, dest, source, 0, 2)
            assert (show(dest) == np.repeat(np.arange(n), 2)).all()


# -- channels ----------------------------------------------------------------------------------------


@cuda.jit
def a_channel_each(channels, array, rounds):
    """Every block sums by its own channel, over and over."""
    block, n = cuda.blockIdx.x, shmem.n_pes()
    row = array[block]
    for _ in range(rounds):
        shmem.sum_reduce_work_group(channels[block], row, row, row.size)
        for i in range(cuda.threadIdx.x, row.size, cuda.blockDim.x):
            row[i] //= n
        cuda.syncthreads()


def test_blocks_with_a_channel_each(job, place, show):
    """The blocks are at different calls of theirs at any time."""
    made = pyshmem.TEAM_WORLD.channels(3)
    assert [channel.index for channel in made] == [0, 1, 2]
    assert len({int(shmem.as_argument(channel)) for channel in made}) == 3
    assert shmem.as_argument(made[0]) == shmem.TEAM_WORLD
    assert shmem.as_argument(pyshmem.TEAM_WORLD.channels(2)[1]) == shmem.as_argument(made[1])
    numbers = place(np.array([shmem.as_argument(channel) for channel in made], np.int32))
    array = place(np.arange(3 * 50, dtype=np.int64).reshape(3, 50))
    a_channel_each[3, 16](numbers, array, 10 if SIM else 500)
    assert (show(array) == np.arange(150).reshape(3, 50)).all()


def test_channels_end_with_their_team(job):
    for _ in range(3):  # a slot that stays taken would be missed soon
        team = pyshmem.TEAM_WORLD.split_strided(0, 1, job.n_pes)
        (_, second) = team.channels(2)
        assert second.team is team
        for channel in team.channels(20)[1:]:
            assert channel.handle
        team.destroy()
        with pytest.raises(ValueError, match="destroyed"):
            shmem.as_argument(second)


def test_a_team_has_at_least_one_channel(job):
    with pytest.raises(ValueError, match="n is 0; a team has at least channel 0"):
        pyshmem.TEAM_WORLD.channels(0)


@cuda.jit
def one_channel_for_two(team, array):
    row = array[cuda.blockIdx.x]
    shmem.sum_reduce_work_group(team, row, row, row.size)


@pytest.mark.skipif(not SIM or CPU, reason="two groups surely overlap where threads take turns")
def test_two_groups_on_one_channel_are_found(job, place):
    with team_of("reversed", job.n_pes) as (team, _):
        array = place(np.zeros((2, 50), np.int64))
        message = fault_of(lambda: one_channel_for_two[2, 16](team, array))
    assert "two groups of this PE are in collectives of one team at a time" in message
    assert "team.channels(n)" in message
