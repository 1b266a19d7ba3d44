# SPDX-License-Identifier: BSD-3-Clause
"""Device cpu: what is told of kernels that cannot be compiled, and of routines that the host calls."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

#: Each kernel cannot be compiled; behind it what must be told, and in which line of it.
PROGRAM = """
import json
import sys
import numpy as np
import pyshmem
from numba import cuda, njit
from pyshmem import device as shmem

class Thing:
    pass

THING = Thing()

@cuda.jit(device=True)
def helper(x):
    return x + "text"

@njit
def ask_host(x):
    pyshmem.barrier_all()  # line of ask_host
    return x

KERNELS = []

def refused(*words):
    def keep(function):
        KERNELS.append((cuda.jit(function), function.__code__, words))
        return function
    return keep

@refused("cuda has no thredIdx: did you mean threadIdx?")
def mistyped(a):
    a[0] = cuda.thredIdx.x  # here

@refused("cuda.no_such_thing is not compiled for the CPU yet")
def unknown(a):
    a[0] = cuda.no_such_thing(1)  # here

@refused("no attribute 'linspce'")
def of_numpy(a):
    a[0] = np.linspce(a)  # here

@refused("name 'undefined_name' is not defined")
def undefined(a):
    a[0] = undefined_name

@refused("add(float32, Literal[str](text))", 'return x + "text"', "called in")
def inner(a):
    a[0] = helper(a[0])  # here

@refused("missing a required argument: 'pe'")
def too_few(a):
    shmem.put(a, a)  # here

@refused("unexpected keyword argument 'wrong'")
def named(a):
    shmem.p(a, 1, 0, wrong=3)  # here

@refused("no attribute 'putt'")
def mistyped_routine(a):
    shmem.putt(a, a, 1)  # here

@refused("dest holds float32 but source holds int16")
def of_two_dtypes(a):
    shmem.put(a, cuda.local.array(1, np.int16), 0)  # here

@refused("pyshmem.barrier_all is a host routine; in kernels use pyshmem.device.barrier_all")
def of_host(a):
    pyshmem.barrier_all()  # here

@refused("pyshmem.barrier_all is a host routine", "line of ask_host", "called in")
def through_njit(a):
    a[0] = ask_host(a[0])  # here

@refused("numpy.zeros: kernels make arrays by cuda.local.array")
def makes_an_array(a):
    b = np.zeros(4)
    a[0] = b[0]

@refused("a list")
def makes_a_list(a):
    b = [1.0, 2.0]
    b.append(a[0])
    a[0] = b[2]

@refused("Unknown attribute 'foo' of type array(float32")
def of_array(a):
    a[0] = a.foo  # here

@refused("Cannot unify")
def of_two_types(a):
    x = 1
    if a[0] > 1:
        x = (1, 2)
    a[0] = x[0]

@refused("the shape of cuda.shared.array is a constant, not int64")
def shaped(a):
    part = cuda.shared.array(a.shape[0], np.float32)  # here
    part[0] = 1

@refused("Untyped global name 'THING'")
def of_an_object(a):
    a[0] = THING.x  # here

@refused("yield: kernels are no generators")
def yields(a):
    yield 1

HERE = open(__file__).read().splitlines()
with pyshmem.init():
    a = pyshmem.zeros(8, dtype=np.float32, heap="device")
    rows = []
    for kernel, code, words in KERNELS:
        try:
            kernel[1, 4](a)
            told, shown = "", False
        except Exception as error:
            told, shown = str(error), not error.__suppress_context__ and bool(error.__context__)
        first = code.co_firstlineno
        line = next((k for k in range(first, first + 4) if "# here" in HERE[k - 1]), 0)
        rows.append((code.co_name, first, line, words, told, shown))
    json.dump(rows, sys.stdout)
"""

ON_HOST = """
import inspect
import numpy as np
import pyshmem
from pyshmem import device as shmem

with pyshmem.init():
    a = pyshmem.zeros(8, dtype=np.int64, heap="device")
    calls = [(shmem.my_pe,), (shmem.barrier_all,), (shmem.put, a, a, 0), (shmem.p, a, 1, 0),
             (shmem.ptr, a, 0), (shmem.stage_begin, "a"), (shmem.signal_wait_until, a, 0, 1)]
    if pyshmem.device.leaf.backend.CPU:  # arguments are not looked at
        every = [getattr(shmem, name) for name in shmem.__all__]
        every = [each for each in every if callable(each) and each not in
                 (shmem.as_argument, shmem.prepare)]
        assert len(every) > 200
        calls += [(each, *[a] * len(inspect.signature(each).parameters)) for each in every]
    for function, *given in calls:
        try:
            function(*given)
        except RuntimeError as error:
            print(error)
        else:
            print(function, "ran")
"""


@pytest.mark.parametrize("full", ["", "1"])
def test_what_cannot_be_compiled_is_told_in_a_few_lines(
    full: str, run_pes: Callable, tmp_path: Path
) -> None:
    """Of Numba's words only what they say of the kernel is shown, unless all of them are asked for."""
    program = tmp_path / "refused.py"
    program.write_text(PROGRAM)
    environment = {"NUMBA_FULL_TRACEBACKS": full} if full else {}
    done = run_pes(1, program, timeout=200, device="cpu", env=environment, check=True)
    for name, first, line, words, told, shown in json.loads(done.stdout):
        lines = told.splitlines()
        assert lines[0].startswith(f"kernel {name} (refused.py:"), (name, told)
        assert len(lines) <= 12
        if line:
            assert f" (refused.py:{first}) cannot be compiled: " in lines[0]
            assert f"refused.py:{line}: " in told, (name, told)
        for word in words:
            assert word in told, (name, told)
        if "for a GPU" not in lines[0]:  # the simulator's words; no other error is behind them
            assert shown == bool(full), name


@pytest.mark.parametrize("device", ["cpu", "sim"])
def test_the_host_is_told_that_it_calls_what_kernels_call(
    device: str, run_pes: Callable, tmp_path: Path
) -> None:
    program = tmp_path / "on_host.py"
    program.write_text(ON_HOST)
    done = run_pes(1, program, timeout=100, device=device, check=True)
    told = "pyshmem.device routines are called from kernels, not from the host, which has its own: "
    lines = done.stdout.splitlines()
    assert len(lines) >= 7
    assert set(lines) == {told + "pyshmem.my_pe(), pyshmem.put(...)"}


#: What a GPU has of shifts by more bits than there are, and of a number in place of an array.
FAR_SHIFTS = """
import numpy as np
import pyshmem
from numba import cuda
import pyshmem.device

@cuda.jit
def shifts(count, whole):
    whole[0] = 3 << count
    whole[1] = whole[4] >> count
    whole[2] = np.uint64(7) << np.uint64(count)
    x = whole[5]
    x <<= count
    whole[3] = x

@cuda.jit
def counts(whole):
    whole[0] = np.count_nonzero(whole[1])

@cuda.jit
def widens(count, real):
    real[0] = 1 << count

with pyshmem.init():
    for count in (1, 62, 63, 64, 65, 127, 200):
        whole = np.array([9, 9, 9, 9, -5, 3])
        shifts[1, 1](count, whole)
        left = [(n << count) % 2**64 for n in (3, 7, 3)] if count < 64 else [0, 0, 0]
        left = [n - 2**64 if n >> 63 else n for n in left]
        assert whole[:4].tolist() == [left[0], -5 >> min(count, 63), left[1], left[2]], (count, whole)
    try:
        counts[1, 1](whole)
    except TypeError as error:
        print("numpy.count_nonzero of a number" in str(error))
    real = np.zeros(1)
    try:
        widens[1, 1](64, real)
        print(real[0])
    except OverflowError as error:
        print(str(error).partition(" has ")[2])
"""


@pytest.mark.parametrize(
    ("device", "told"),
    [
        ("cpu", "0.0"),
        (
            "sim",
            "more than the 64 bits of a kernel's integers: a shift by 64 or more leaves 0 on a GPU",
        ),
    ],
)
def test_shifts_by_more_bits_than_there_are_leave_nothing(
    device: str, told: str, run_pes: Callable
) -> None:
    done = run_pes(1, FAR_SHIFTS, device=device, check=True, timeout=120)
    assert done.stdout == f"True\n{told}\n"


TWO_GROUPS = """
import pyshmem
from numba import cuda
from pyshmem import device as shmem

@cuda.jit
def total(dest, source):
    if cuda.blockIdx.x == 1 and dest[0] == -1:
        dest[99] = 1
    shmem.sum_reduce_work_group(shmem.TEAM_WORLD, dest, source, 4)

with pyshmem.init(heap_size="4M", device_heap_size="4M") as job:
    dest, source = pyshmem.full(4, -1.0, heap="device"), pyshmem.ones(4, heap="device")
    if job.device == "sim":
        try:
            total[2, 4](dest, source)
        except IndexError as error:
            print("ended inside")
    dest[:] = 0
    pyshmem.barrier_all()
    total[1, 4](dest, source)
    cuda.synchronize()
    print(int(dest[0]))
    pyshmem.barrier_all()
    total[2, 4](dest, source)
    cuda.synchronize()
"""


@pytest.mark.parametrize("device", ["cpu", "sim"])
def test_two_groups_in_one_team_are_told_without_checking_mode(
    device: str, run_pes: Callable, tmp_path: Path
) -> None:
    """One that an exception ended inside of a collective is not in it any more."""
    program = tmp_path / "two_groups.py"
    program.write_text(TWO_GROUPS)
    done = run_pes(2, program, timeout=200, device=device)
    assert done.returncode
    assert "in kernel total" in done.stderr
    assert "two groups of this PE are in collectives of one team at a time" in done.stderr
    assert "team.channels(n)" in done.stderr
    assert done.stdout.split().count("2") == 2
    assert done.stdout.count("ended inside") == (2 if device == "sim" else 0)


EACH_THREAD = """
import time

import pyshmem
from numba import cuda
from pyshmem import device as shmem

@cuda.jit
def once(many):
    if many or cuda.threadIdx.x == 0:
        shmem.{routine}()

with pyshmem.init(heap_size="4M", device_heap_size="4M") as job:
    for turn in range(3):
        once[1, 8](False)
    cuda.synchronize()
    print("right")
    time.sleep(job.my_pe)  # the first thread of PE 0 waits, and lets the second one run
    once[1, 8](True)
    cuda.synchronize()
    print("not told")
"""


@pytest.mark.parametrize("routine", ["sync_all", "barrier_all"])
@pytest.mark.parametrize("device", ["cpu", "sim"])
def test_a_meeting_of_all_pes_by_each_thread_is_told(
    device: str, routine: str, run_pes: Callable, tmp_path: Path
) -> None:
    program = tmp_path / "each_thread.py"
    program.write_text(EACH_THREAD.format(routine=routine))
    done = run_pes(2, program, timeout=200, device=device)
    assert done.returncode
    assert done.stdout.split() == ["right", "right"]
    assert f"device routine {routine}: two groups of this PE are in collectives" in done.stderr
    assert "or one of them calls it" in done.stderr
