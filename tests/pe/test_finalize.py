# SPDX-License-Identifier: BSD-3-Clause
"""What is left after finalize: arrays can be looked at, memory goes when the last of them does."""

from __future__ import annotations

from collections.abc import Callable

PRELUDE = """
import gc
import numpy as np
import pyshmem

def mapped():
    names = "pyshmem-heap", "pyshmem-device-heap"
    return sum(any(name in line for name in names) for line in open("/proc/self/maps"))

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
