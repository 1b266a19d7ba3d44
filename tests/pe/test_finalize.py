# SPDX-License-Identifier: BSD-3-Clause
"""What is left after finalize: arrays can be looked at, memory goes when the last of them does."""

from __future__ import annotations

from collections.abc import Callable

import pytest

PRELUDE = """
import gc
import numpy as np
import pyshmem

def mapped():
    # memory files of heaps; parts of one may be mapped
    names = "pyshmem-heap", "pyshmem-device-heap"
    lines = [line.split() for line in open("/proc/self/maps") if any(name in line for name in names)]
    return len({line[4] for line in lines})

def init():
    return pyshmem.init(heap_size="1M", device_heap_size="1M")
"""


def test_arrays_can_be_printed_after_their_job(n_pes: int, run_pes: Callable) -> None:
    run_pes(
        n_pes,
        PRELUDE
        + """
with init() as job:
    arrays = [pyshmem.full(5, job.my_pe, int, heap=heap) for heap in ("host", "device")]
    views = [array[1:4].reshape(3, 1) for array in arrays]
    windows = [pyshmem.ptr(array, (job.my_pe + 1) % job.n_pes) for array in arrays]
    pyshmem.barrier_all()
for array, view, window in zip(arrays, views, windows):
    assert str(array) == str(np.full(5, job.my_pe)), array
    assert repr(view.tolist()) == repr([[job.my_pe]] * 3)
    assert window.sum() == 5 * ((job.my_pe + 1) % job.n_pes)
try:
    pyshmem.put(arrays[0], arrays[1], 0)
except pyshmem.NotInitialized as error:
    assert "job that has ended" in str(error)
""",
        device="sim",
        check=True,
    )


def test_an_array_in_the_message_of_an_exception_is_shown(run_pes: Callable) -> None:
    done = run_pes(
        2,
        PRELUDE
        + """
class Told(Exception):
    def __str__(self):
        return f"found {self.args[0]}"  # looked at when it is printed

with init() as job:
    array = pyshmem.full(4, 7, int)
    raise Told(array)
""",
    )
    assert done.returncode == 1
    assert "Told: found [7 7 7 7]" in done.stderr


def test_memory_goes_with_the_last_array(n_pes: int, run_pes: Callable) -> None:
    run_pes(
        n_pes,
        PRELUDE
        + """
assert mapped() == 0
with init():
    assert mapped() == 2
    dropped, freed = pyshmem.zeros(3), pyshmem.zeros(3, heap="device")
    del dropped
    pyshmem.free(freed)
assert mapped() == 0

with init():
    array, other = pyshmem.zeros(3), pyshmem.ones(3)
    view = array[1:]
assert mapped() == 1
del array, other
gc.collect()
assert mapped() == 1
assert view.tolist() == [0, 0]
del view
assert mapped() == 0
""",
        device="sim",
        check=True,
    )


def test_a_new_job_does_not_disturb_arrays_of_the_old_one(n_pes: int, run_pes: Callable) -> None:
    run_pes(
        n_pes,
        PRELUDE
        + """
kept = []
for round in range(5):
    with init() as job:
        array = pyshmem.full(1000, 10 * round + job.my_pe, int)
        assert array.heap == "host"
        pyshmem.barrier_all()
        for old in kept[:2]:
            assert old.heap is None
            try:
                pyshmem.put(old, array, 0)
            except ValueError:
                pass
            else:
                raise SystemExit("an array of an earlier job was written")
        if round == 3:
            del kept[0], old
            gc.collect()
            assert pyshmem.heap_info().allocations == 1
        pyshmem.sum_reduce(array, array)
        pyshmem.barrier_all()
        kept.append(array)
n = job.n_pes
sums = [10 * round * n + n * (n - 1) // 2 for round in range(1, 5)]
assert [array[0] for array in kept] == sums
assert mapped() == len(kept)
""",
        device="none",
        check=True,
    )


def test_finalize_and_init_many_times(n_pes: int, run_pes: Callable) -> None:
    run_pes(
        n_pes,
        PRELUDE
        + """
import os
for round in range(20):
    with init() as job:
        total = pyshmem.ones(1, int)
        pyshmem.sum_reduce(total, total)
        assert total[0] == job.n_pes
    del total
    if round == 0:
        descriptors = len(os.listdir("/proc/self/fd"))
assert mapped() == 0
assert len(os.listdir("/proc/self/fd")) == descriptors
""",
        device="none",
        check=True,
    )


def test_a_finalize_at_exit_that_fails_fails_the_job(run_pes: Callable) -> None:
    done = run_pes(
        2,
        """
        import time, pyshmem
        if pyshmem.init(heap_size="1M").my_pe == 0:
            time.sleep(60)
        """,
        env={"PYSHMEM_TIMEOUT": "0.5"},
    )
    assert "finalize at exit: finalize took longer than 0.5 s" in done.stderr
    assert done.returncode == 1


PAGES = """
import gc
import numpy as np
import pyshmem

MIB = 1 << 20

def used():
    '''MiB of shared memory that this process has in use.'''
    line = next(line for line in open("/proc/self/status") if line.startswith("RssShmem"))
    return int(line.split()[1]) / 1024

def large(heap, n=32):
    array = pyshmem.empty(n * MIB, np.uint8, heap=heap)
    array[:] = 1
    return array
"""


@pytest.mark.parametrize("heap", ["host", "device"])
@pytest.mark.parametrize("way", ["pyshmem.free(array)", "del array; pyshmem.drain()"])
def test_a_large_block_gives_its_pages_back(way: str, heap: str, run_pes: Callable) -> None:
    text = f"""
with pyshmem.init(heap_size="64M", device_heap_size="64M") as job:
    for _ in range(3):
        array = large({heap!r})
        assert used() > 32
        pyshmem.barrier_all()
        {way}
        assert used() < 16, used()
    array = pyshmem.zeros(32 * MIB, np.uint8, heap={heap!r})
    pyshmem.put(array[:9], np.full(9, 7, np.uint8), (job.my_pe + 1) % job.n_pes)
    pyshmem.barrier_all()
    assert array[:9].tolist() == [7] * 9 and array[9:].sum() == 0
    kept = large({heap!r}, 2)
    pyshmem.free(kept)
    assert used() > 2  # its pages are worth keeping
"""
    run_pes(2, PAGES + text, device="sim", check=True)


@pytest.mark.parametrize("heap", ["host", "device"])
@pytest.mark.parametrize("drop", ["del big", "pyshmem.free(big); del big", "big = big[:9].copy()"])
def test_finalize_keeps_the_pages_of_blocks_in_use_alone(
    heap: str, drop: str, run_pes: Callable
) -> None:
    text = f"""
with pyshmem.init(heap_size="64M", device_heap_size="64M") as job:
    me, n = job.my_pe, job.n_pes
    small = pyshmem.full(8, me, np.int64, heap={heap!r})
    big = large({heap!r}, 48)
    last = pyshmem.full(8, 10 + me, np.int64, heap={heap!r})
    window = pyshmem.ptr(last, (me + 1) % n)
    pyshmem.barrier_all()
    {drop}
    pyshmem.barrier_all()
gc.collect()
assert used() < 4, used()
assert small.tolist() == [me] * 8 and last.tolist() == [10 + me] * 8
assert window.tolist() == [10 + (me + 1) % n] * 8
with pyshmem.init(heap_size="64M", device_heap_size="64M"):
    again = large({heap!r}, 8)
    pyshmem.barrier_all()
assert small.tolist() == [me] * 8 and again.sum() == 8 * MIB
del small, last, window, again
gc.collect()
assert used() < 1, used()
"""
    done = run_pes(3, PAGES + text, device="sim", check=True)
    assert done.stderr == ""


def test_what_is_dropped_right_before_finalize_goes_with_it(run_pes: Callable) -> None:
    text = """
with pyshmem.init(heap_size="64M") as job:
    small, big = pyshmem.ones(8), large("host", 48)
    if job.my_pe == 0:
        del small
    del big
assert used() < 4, used()
"""
    run_pes(2, PAGES + text, device="none", check=True)


@pytest.mark.parametrize("n", [2, 3])
def test_who_ends_waits_for_those_that_its_end_was_told_in_a_collective(
    n: int, run_pes: Callable
) -> None:
    """They have an error, may deal with it, and end too: then nothing of the job has failed."""
    done = run_pes(
        n,
        PRELUDE
        + """
with init() as job:
    array = pyshmem.zeros(4, dtype=np.int64)
    calls = (
        lambda: pyshmem.Team.from_pes([0], parent=pyshmem.TEAM_WORLD),
        lambda: pyshmem.sum_reduce(array, array),
        pyshmem.barrier_all,
        lambda: pyshmem.zeros(3),
    )
    told = []
    for call in calls if job.my_pe != 1 else ():
        try:
            call()
        except pyshmem.MismatchError as error:
            told.append("PE 1 called finalize" in str(error))
    if job.my_pe != 1:
        assert told == [True] * len(calls), told
print("ended")
""",
        env={"PYSHMEM_TIMEOUT": "20"},
        check=True,
    )
    assert done.stdout == "ended\n" * n
