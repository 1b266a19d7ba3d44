# SPDX-License-Identifier: BSD-3-Clause
"""Kernels of the simulator where a program does what it should not, or from several threads."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable

import numpy as np
import pytest

import pyshmem

pytest.importorskip("greenlet", reason="the simulator is not installed")


def test_kernels_outside_a_job_are_told_so(run_pes: Callable) -> None:
    run_pes(
        1,
        """
        import numpy as np, pyshmem
        from numba import cuda
        from pyshmem import device as shmem

        calls = {
            "barrier_all": cuda.jit(lambda: shmem.barrier_all()),
            "quiet": cuda.jit(lambda: shmem.quiet()),
            "team_sync": cuda.jit(lambda: shmem.team_sync(shmem.TEAM_WORLD)),
            "n_pes": cuda.jit(lambda: shmem.n_pes()),
            "print": cuda.jit(lambda: shmem.print("a", 1)),
        }

        def refused():
            for name, kernel in calls.items():
                try:
                    kernel[1, 1]()
                    raise SystemExit(f"{name} went on")
                except pyshmem.NotInitialized as error:
                    assert "pyshmem.device" in str(error)

        refused()
        with pyshmem.init(device_heap_size="1M"):
            for kernel in calls.values():
                kernel[1, 1]()
        refused()
        """,
        device="sim",
        check=True,
    )


def test_threads_launch_in_turn(run_pes: Callable) -> None:
    run_pes(
        2,
        """
        import threading, time, numpy as np, pyshmem
        from numba import cuda
        from pyshmem import device as shmem

        @cuda.jit
        def wait(sig, out):
            shmem.signal_wait_until(sig, shmem.CMP_EQ, 1)
            out[cuda.threadIdx.x] += 1

        @cuda.jit
        def count(out):
            out[cuda.threadIdx.x] += 1

        with pyshmem.init(device_heap_size="1M") as job:
            sig, out = pyshmem.new_signal(heap="device"), pyshmem.zeros(4, np.int64, heap="device")
            first = threading.Thread(target=lambda: wait[1, 4](sig, out))
            first.start()
            time.sleep(0.2)
            cuda.synchronize()  # the host's, though a kernel runs
            second = threading.Thread(target=lambda: count[1, 4](out))
            second.start()
            pyshmem.signal_set(sig, 1, (job.my_pe + 1) % job.n_pes)
            first.join()
            second.join()
            assert (out == 2).all(), out
        """,
        device="sim",
        check=True,
    )


@pytest.mark.pes(1, env={"PYSHMEM_DEVICE": "sim"})
def test_a_kernel_is_not_given_an_array_that_was_freed() -> None:
    from numba import cuda

    from pyshmem import device as shmem

    @cuda.jit
    def touch(a):
        shmem.p(a, 1, 0)

    array = pyshmem.zeros(4, np.int64, heap="device")
    view = array[1:]
    pyshmem.free(array)
    for gone in (array, view):
        with pytest.raises(ValueError, match="it was freed"):
            touch[1, 1](gone)


@pytest.mark.pes(1, env={"PYSHMEM_DEVICE": "sim"})
def test_arrays_in_a_tuple_are_taken_as_others_are() -> None:
    from collections import namedtuple

    from numba import cuda

    from pyshmem import device as shmem

    @cuda.jit
    def touch(arrays):
        shmem.p(arrays[0], 7, 0)
        arrays[1][0] = 5

    pair = namedtuple("pair", "symmetric own")
    array, own = pyshmem.zeros(4, np.int64, heap="device"), np.zeros(2)
    for given in ((array, own), pair(array, own)):
        array[:], own[:] = 0, 0
        touch[1, 1](given)
        assert array[0] == 7
        assert own[0] == 5
    pyshmem.free(array)
    for given in ((array, own), pair(array, own), ((array,), own)):
        with pytest.raises(ValueError, match="it was freed"):
            touch[1, 1](given)


@pytest.mark.pes(1, env={"PYSHMEM_DEVICE": "sim"})
def test_each_launch_has_the_configuration_that_it_was_given() -> None:
    from numba import cuda

    import pyshmem.device  # noqa: F401 - from here on kernels run in pyshmem's simulator

    @cuda.jit
    def count(blocks_and_threads):
        if cuda.threadIdx.x == 0:
            blocks_and_threads[0] += 1
        blocks_and_threads[1] += 1

    def counted(launch):
        launch(seen := np.zeros(2, int))
        return seen.tolist()

    small, large = count[1, 2], count[3, 4]
    assert counted(small) == [1, 2]
    assert counted(large) == [3, 12]
    assert counted(small) == [1, 2]
    assert counted(count.forall(0)) == [0, 0]
    with pytest.raises(ValueError, match="configur"):
        counted(count)
    for shape in ((0, 1), (1, 0), (1, -1), (1, 1025), (1, (32, 33))):
        with pytest.raises(ValueError, match="a block has 1024 threads at most"):
            counted(count[shape])


@pytest.mark.pes(1, env={"PYSHMEM_DEVICE": "sim"})
def test_debug_kernels_tell_of_faults_as_numba_does() -> None:
    from numba import cuda

    import pyshmem.device  # noqa: F401 - from here on kernels run in pyshmem's simulator

    def divide(out, x):
        i = cuda.grid(1)
        if x[i] == 7:
            raise IndexError
        out[i] = 1 / x[i]

    out = np.zeros(4)
    with np.errstate(divide="ignore"):
        cuda.jit(divide)[2, 2](out, np.array([1.0, 0, 2, 4]))
    assert out.tolist() == [1, np.inf, 0.5, 0.25]
    debugged = cuda.jit(debug=True, opt=False)(divide)
    where = r"tid=\[1, 0, 0\] ctaid=\[1, 0, 0\]"
    with pytest.raises(FloatingPointError, match=f"^{where}: divide by zero"):
        debugged[2, 2](out, np.array([1.0, 2, 4, 0]))
    with pytest.raises(IndexError, match=f"^{where}\n"):
        debugged[2, 2](out, np.array([1.0, 2, 4, 7]))


@pytest.mark.pes(1, env={"PYSHMEM_DEVICE": "sim"})
def test_kernels_know_cuda_by_any_name() -> None:
    import numba
    from numba import cuda

    from pyshmem import device as shmem

    @cuda.jit
    def around(a):
        shmem.p(a[cuda.threadIdx.x :], 1, 0)

    @cuda.jit
    def written_out(a):
        i = numba.cuda.grid(1)
        tile = numba.cuda.shared.array(4, numba.int64)
        tile[i] = i
        numba.cuda.syncthreads()
        a[i] = tile[3 - i]

    @cuda.jit
    def of_the_host(_a):
        cuda.threadIdx_x  # noqa: B018

    array = pyshmem.zeros(4, np.int64, heap="device")
    around[1, 4](array)
    assert array.tolist() == [1, 1, 1, 1]
    written_out[1, 4](array)
    assert array.tolist() == [3, 2, 1, 0]
    with pytest.raises(AttributeError, match="threadIdx_x"):
        of_the_host[1, 1](array)
    assert not hasattr(cuda, "threadIdx")


#: Kernels of 48 threads that do not all make the same call, and what is said of each.
NOT_TOGETHER = {
    "half": (
        "put_work_group is for all 48 threads of block 0 together, but threads have ended without it; "
        "in it: 0-15"
    ),
    "late": (
        "put_work_group is for all 48 threads of block 0 together, but threads have ended without it; "
        "in it: 0"
    ),
    "warp": (
        "put_warp is for all 32 threads of warp 0 of block 0 together, but threads have ended "
        "without it; in it: 7"
    ),
    "two": (
        "threads of block 0 meet in different calls, each of which is for all of them together: threads "
        "0-15 in put_work_group; 16-47 in get_work_group"
    ),
    "barrier": (
        "threads of block 0 meet in different calls, each of which is for all of them together: threads "
        "0-15 in quiet_work_group; 16-47 in a barrier"
    ),
    "orders": (
        "threads of block 0 meet in different calls, each of which is for all of them together: threads "
        "0, 2-3, 5-31, 33-47 in fence_work_group; 1, 4, 32 in quiet_work_group"
    ),
    "waits": (
        "threads of block 0 meet in different calls, each of which is for all of them together: threads "
        "0-15 in wait_until_work_group; 16-31 in barrier_all_work_group; 32-47 in a barrier"
    ),
    "lanes": (
        "threads of warp 1 of block 0 meet in different calls, each of which is for all of them "
        "together: threads 32-39 in put_warp; 40-47 in put_nbi_warp"
    ),
    "lane": (
        "threads of warp 0 of block 0 meet in different calls, each of which is for all of them "
        "together: threads 0-30 in sum_reduce_warp; 31 in max_reduce_warp"
    ),
    "to_many": (
        "threads of block 0 call put_work_group together with different arguments: pe is 0 in thread 0, "
        "1 in thread 1"
    ),
    "by_lane": (
        "threads of warp 0 of block 0 call get_warp together with different arguments: nelems is 48 in "
        "thread 0, 1 in thread 31"
    ),
}


OF_A_GROUP = """
import numpy as np, pyshmem
from numba import cuda
from pyshmem import device as shmem

@cuda.jit
def half(dest, source):
    if cuda.threadIdx.x < 16:
        shmem.put_work_group(dest, source, 0)

@cuda.jit
def late(dest, source):
    if cuda.threadIdx.x == 0:
        for _ in range(3):
            cuda.nanosleep(1)
        shmem.put_work_group(dest, source, 0)

@cuda.jit
def warp(dest, source):
    if cuda.threadIdx.x == 7 or cuda.threadIdx.x >= 32:
        shmem.put_warp(dest, source, 0)

@cuda.jit
def two(dest, source):
    if cuda.threadIdx.x < 16:
        shmem.put_work_group(dest, source, 0)
    else:
        shmem.get_work_group(dest, source, 0)

@cuda.jit
def barrier(dest, source):
    if cuda.threadIdx.x < 16:
        shmem.quiet_work_group()
    else:
        cuda.syncthreads()

@cuda.jit
def orders(dest, source):
    if cuda.threadIdx.x in (1, 4, 32):
        shmem.quiet_work_group()
    else:
        shmem.fence_work_group()

@cuda.jit
def waits(dest, source):
    if cuda.threadIdx.x < 16:
        shmem.wait_until_work_group(dest, shmem.CMP_EQ, 1)
    elif cuda.threadIdx.x < 32:
        shmem.barrier_all_work_group()
    else:
        cuda.syncthreads()

@cuda.jit
def lanes(dest, source):
    if cuda.threadIdx.x < 40:
        shmem.put_warp(dest, source, 0)
    else:
        shmem.put_nbi_warp(dest, source, 0)

@cuda.jit
def lane(dest, source):
    if cuda.threadIdx.x < 31:
        shmem.sum_reduce_warp(shmem.TEAM_WORLD, dest, source, 48)
    elif cuda.threadIdx.x == 31:
        shmem.max_reduce_warp(shmem.TEAM_WORLD, dest, source, 48)

@cuda.jit
def to_many(dest, source):
    shmem.put_work_group(dest, source, cuda.threadIdx.x)

@cuda.jit
def by_lane(dest, source):
    if cuda.threadIdx.x < 32:
        shmem.get_warp(dest, source, 0, 48 if cuda.threadIdx.x < 31 else 1)

@cuda.jit
def whole(dest, source):
    shmem.put_work_group(dest, source, 0)
    if cuda.threadIdx.x < 32:
        shmem.put_warp(dest, source, 0)
    cuda.syncthreads()
    shmem.put_warp(dest, source, 0, cuda.threadIdx.x // 32)
    if cuda.threadIdx.x < 16:  # in one call, on two lines, with a number that the other leaves out
        shmem.get_work_group(dest, source, 0)
    else:
        shmem.get_work_group(dest, source, np.int32(0), 48)
    shmem.barrier_all_work_group()
"""


@pytest.mark.parametrize("device", ["sim", "cpu"])
def test_a_call_of_a_group_by_some_of_its_threads_is_an_error(
    device: str, run_pes: Callable
) -> None:
    launches = f"""
    with pyshmem.init(device_heap_size="1M"):
        dest, source = (pyshmem.ones(48, np.int64, heap="device") for _ in range(2))
        for kernel in ({", ".join(NOT_TOGETHER)}):
            try:
                kernel[1, 48](dest, source)
            except RuntimeError as error:
                print(error)
            whole[1, 48](dest, source)
    """
    program = OF_A_GROUP + textwrap.dedent(launches)
    done = run_pes(1, program, device=device, check=True, timeout=200)
    lines = program.splitlines()
    for (kernel, told), line in zip(NOT_TOGETHER.items(), done.stdout.splitlines(), strict=True):
        if device == "cpu":
            decorated = lines.index(f"def {kernel}(dest, source):")
            told += f", in kernel {kernel} (program.py:{decorated}), block (0, 0, 0)"
        if "ended" in told:
            told += (
                "; let all of them reach it, with no return before it and no if around it, or call "
            )
            told += "put, which one thread calls"
        places = list(map(int, re.findall(r", at program.py:(\d+)", line)))
        for place in places:
            assert re.search("_work_group|_warp|syncthreads", lines[place - 1])
        assert bool(places) == (device == "sim" and "arguments" not in told)
        assert re.sub(r", at program.py:\d+", "", line) == told


APART = """
import numpy as np
import pyshmem.device
from numba import cuda

@cuda.jit
def warp_or_block(x):
    if cuda.threadIdx.x < 3:
        cuda.syncthreads()
    else:
        cuda.syncwarp()

@cuda.jit
def grid_or_block(x):
    if cuda.threadIdx.x % 2:
        cuda.cg.this_grid().sync()
    else:
        cuda.syncthreads()

@cuda.jit
def some_have_ended(x):
    if cuda.threadIdx.x < 2:
        cuda.syncthreads()
    elif cuda.threadIdx.x < 5:
        cuda.syncwarp()

for kernel in (warp_or_block, grid_or_block, some_have_ended):
    try:
        kernel[1, 8](np.zeros(1))
    except RuntimeError as error:
        print(str(error)[str(error).rindex("block ") :])
"""


@pytest.mark.parametrize("device", ["sim", "cpu"])
def test_who_waits_in_which_barrier_is_told(device: str, run_pes: Callable) -> None:
    """Where threads of a block wait in barriers of which none can end: as a hang is told of."""
    done = run_pes(1, APART, device=device, check=True, timeout=100)
    for line, wanted in zip(
        done.stdout.splitlines(),
        (
            ("threads 0-2 at syncthreads", "threads 3-7 at a warp's meeting"),
            ("threads 0, 2, 4, 6 at syncthreads", "threads 1, 3, 5, 7 at the grid's barrier"),
            (
                "threads 0-1 at syncthreads",
                "threads 2-4 at a warp's meeting",
                "3 of its 8 have ended",
            ),
        ),
        strict=True,
    ):
        places = line[line.index("threads ") :].split("; ")
        assert sorted(places) == sorted(wanted), line


FIRST = """
import sys, threading, time
import numpy as np, pyshmem
from numba import cuda
from pyshmem import device as shmem

@cuda.jit
def count(cells, place):
    shmem.atomic_add(cells[place : place + 1], 1, (shmem.my_pe() + 1) % shmem.n_pes())

@cuda.jit
def wait(flag, done):
    shmem.wait_until(flag, shmem.CMP_EQ, 1)
    done[0] = 7

with pyshmem.init(thread_level=pyshmem.THREAD_MULTIPLE) as job:
    me, n = job.my_pe, job.n_pes
    cells, flag, done = (pyshmem.zeros(4, dtype=np.int64, heap="device") for _ in range(3))
    a = pyshmem.full(4, me + 1, dtype=np.float32, heap="device")
    b = pyshmem.zeros(4 * n, dtype=np.float32, heap="device")
    views = [shmem.as_argument(array) for array in (cells, flag, done)]
    begin, failed = threading.Barrier(4), []
    def first(place):
        try:
            begin.wait()
            count[1, 1](views[0], place)
        except BaseException as error:
            failed.append(error)
    threads = [threading.Thread(target=first, args=(place,)) for place in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    pyshmem.barrier_all()
    assert not failed and (pyshmem.to_numpy(cells) == 1).all(), failed
    waiting = threading.Thread(target=lambda: wait[1, 1](views[1][:1], views[2]))
    waiting.start()
    # Each for the first time, while the kernel waits.
    pyshmem.sum_reduce(b[:4], a)
    pyshmem.fcollect(b, a)
    pyshmem.broadcast(b[:4], a, n - 1)
    pyshmem.max_reduce_scatter(a[:1], b[:n])
    pyshmem.sum_inscan(b[:4], a)
    pyshmem.barrier_all()
    assert waiting.is_alive()
    pyshmem.p(flag, 1, me)
    waiting.join(30)
    cuda.synchronize()
    assert pyshmem.to_numpy(done)[0] == 7
    pyshmem.barrier_all()
    print("right")
"""


@pytest.mark.parametrize("device", ["sim", "cpu"])
def test_threads_that_launch_first_and_a_host_beside_a_kernel(
    device: str, run_pes: Callable
) -> None:
    done = run_pes(2, FIRST, device=device, check=True, timeout=120)
    assert done.stdout.split() == ["right"] * 2


KEPT = """
import gc, weakref
import pyshmem
from numba import cuda

@cuda.jit
def store(a):
    a[0] = 1

gc.disable()
with pyshmem.init() as job:
    a = pyshmem.zeros(4, heap="device")
    store[1, 4](a)
    alive = weakref.ref(a)
    del a
    print("kept" if alive() is not None else "gone")
"""


@pytest.mark.parametrize("device", ["sim", "cpu"])
def test_a_kernel_that_has_ended_keeps_no_array(device: str, run_pes: Callable) -> None:
    assert run_pes(1, KEPT, device=device, check=True, timeout=60).stdout == "gone\n"
