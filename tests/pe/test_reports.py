# SPDX-License-Identifier: BSD-3-Clause
"""Reports on waits in kernels: one names every PE; host and kernels in one collective raise."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

#: PE 0 gives up, once it has seen the others wait.
NEVER = """
import os
if os.environ["PYSHMEM_PE"] == "0":
    os.environ["PYSHMEM_TIMEOUT"] = "2"
import pyshmem
from numba import cuda
from pyshmem.host import faults
from pyshmem import device as shmem

@cuda.jit
def wait_in_vain(sig):
    shmem.signal_wait_until(sig, shmem.CMP_GE, 7)

with pyshmem.init(device_heap_size="1M") as job:
    sig = pyshmem.new_signal(heap="device")
    while job.my_pe == 0 and faults.report().count("signal_wait_until for >= 7") < 2:
        pass
    wait_in_vain[1, 1](sig)
    pyshmem.quiet()
"""


def test_one_report_names_what_every_pe_waits_for(run_pes: Callable) -> None:
    done = run_pes(3, NEVER, device="sim", timeout=60)
    assert done.returncode == 1
    report = done.stderr
    assert "KernelFault: in kernel wait_in_vain (program.py:12), block 0, thread 0" in report
    for pe in range(3):
        assert f"PE {pe} (pid" in report
    assert "signal_wait_until for >= 7, seen 0\n" in report
    assert "kernel wait_in_vain (program.py:12), launched at program.py:" in report
    assert report.count("a launch returns when its kernel has ended") >= 1
    assert "ring 0" not in report  # which has had nothing to do


ON_A_STREAM = """
import sys
import time
import numpy as np
import pyshmem

with pyshmem.init(device_heap_size="1M") as job:
    words = pyshmem.zeros(3, np.int32, heap="device")
    found = pyshmem.zeros(1, np.int64, heap="device")
    cmp, stream = getattr(pyshmem, sys.argv[2]), pyshmem.streams.Stream()
    try:
        if sys.argv[1] == "wait_until":
            pyshmem.wait_until(words, cmp, -3, stream=stream)
        elif sys.argv[1] == "wait_until_all":
            pyshmem.wait_until_all(words, cmp, -3, stream=stream)
        else:
            pyshmem.wait_until_any(words, cmp, -3, stream=stream, found=found)
        while not stream.query():
            time.sleep(0.01)
        pyshmem.quiet()
    except pyshmem.KernelFault as error:
        print(error)
    stream.destroy()
"""


@pytest.mark.parametrize(
    ("routine", "cmp", "asked", "seen"),
    [
        ("wait_until", "CMP_LT", "< -3", " 0"),
        ("wait_until", "CMP_LE", "<= -3", " 0"),
        ("wait_until_all", "CMP_EQ", "3 elements == -3", ""),
        ("wait_until_any", "CMP_LT", "3 elements < -3", ""),
    ],
)
def test_a_wait_on_a_stream_says_the_comparison(
    run_pes: Callable, routine: str, cmp: str, asked: str, seen: str
) -> None:
    settings = {"PYSHMEM_TIMEOUT": "1"}
    done = run_pes(1, ON_A_STREAM, [routine, cmp], device="sim", env=settings, check=True)
    fault, *standing = done.stdout.splitlines()
    saw, told = seen and f" and saw{seen}", seen and f", seen{seen}"
    assert (
        f"device routine {routine}: waited longer than PYSHMEM_TIMEOUT for {asked}{saw};" in fault
    )
    assert any(f", {routine} for {asked}{told}" in line for line in standing)


ON_THE_HOST = """
import numpy as np
import pyshmem

with pyshmem.init(heap_size="1M") as job:
    signal, wide = pyshmem.full(2, 5, np.uint64), pyshmem.zeros(2, np.uint64)
    four = pyshmem.array(np.array([-9, -9, -1, 0], np.int32))
    for wait in (
        lambda: pyshmem.signal_wait_until(signal[:1], pyshmem.CMP_GE, 7),
        lambda: pyshmem.wait_until(wide[:1], pyshmem.CMP_EQ, 2**64 - 1),
        lambda: pyshmem.wait_until_all(four, pyshmem.CMP_LT, -3),
        lambda: pyshmem.wait_until_some(pyshmem.zeros(200, np.int32), pyshmem.CMP_GT, 3),
        lambda: pyshmem.wait_until_any_vector(wide, pyshmem.CMP_NE, wide.copy(), status=[1, 0]),
    ):
        try:
            wait()
        except pyshmem.ShmemTimeout as error:
            print(error)
"""


def test_a_wait_of_the_host_says_the_comparison_and_what_it_sees(run_pes: Callable) -> None:
    settings = {"PYSHMEM_TIMEOUT": "0.2", "PYSHMEM_REPORT_AFTER": "0.1"}
    done = run_pes(1, ON_THE_HOST, env=settings, check=True)
    names = re.findall(r"^(.*) took longer than", done.stdout, re.MULTILINE)
    assert names == [
        "signal_wait_until (>= 7, seen 5)",
        f"wait_until (== {2**64 - 1}, seen 0)",
        "wait_until_all (< -3, seen -1 in element 2; 1 more)",
        "wait_until_some (> 3, seen 0 in element 0; 99+ more)",
        "wait_until_any (!= 0, seen 0 in element 1)",
    ]
    for name in names:
        assert f": in {name} for" in done.stdout
        assert f"PE 0 waits in {name} for" in done.stderr


#: PE 1 gives what PE 0 waits for once it is told that PE 0 has seen what came before.
OTHERS_SEE = """
import pyshmem
from pyshmem.host.faults import report

with pyshmem.init(heap_size="1M") as job:
    signal = pyshmem.new_signal()
    if job.my_pe == 0:
        pyshmem.signal_wait_until(signal, pyshmem.CMP_GE, 7)
    else:
        for value in (0, 5, 7):
            pyshmem.atomic_set(signal, value, 0)
            while value < 7 and f"in signal_wait_until (>= 7, seen {value}) for" not in report():
                pass
"""


def test_others_are_told_what_a_wait_sees_now(run_pes: Callable) -> None:
    run_pes(2, OTHERS_SEE, check=True, timeout=60)


MIXED = """
import pyshmem
from numba import cuda
from pyshmem import device as shmem

@cuda.jit
def meet(team):
    shmem.team_sync_work_group(team)

with pyshmem.init(device_heap_size="1M") as job:
    team = pyshmem.TEAM_WORLD.split_strided(0, 1, job.n_pes)
    slot = shmem.as_argument(team)
    pyshmem.barrier_all()
    try:
        if job.my_pe == 1:
            meet[1, 32](slot)
        else:
            team.sync()
    except pyshmem.MismatchError as error:
        print(job.my_pe, error)
    pyshmem.barrier_all()
"""


@pytest.mark.parametrize("n_pes", [2, 3])
def test_host_and_kernel_in_one_collective_raise_on_all_pes(n_pes: int, run_pes: Callable) -> None:
    done = run_pes(n_pes, MIXED, device="sim", env={"PYSHMEM_TIMEOUT": "20"}, timeout=60)
    lines = sorted(done.stdout.splitlines())
    assert [line.split()[0] for line in lines] == [str(pe) for pe in range(n_pes)]
    assert all("kernel meet (program.py:" in line and "team_sync" in line for line in lines)


ONE_LAUNCHES = """
import pyshmem
from numba import cuda
from pyshmem import device as shmem

@cuda.jit
def meet():
    shmem.sync_all()

with pyshmem.init(device_heap_size="1M") as job:
    if job.my_pe == 0:
        meet[1, 1]()
    END
"""


@pytest.mark.parametrize("device", ["sim", "cpu"])
@pytest.mark.parametrize(
    ("end", "where"),
    [
        ("pass", r"finalize at \S+:\d+"),
        ("pyshmem.barrier_all()", r"barrier_all at \S+:\d+ on the host"),
    ],
)
def test_a_kernel_with_a_collective_that_one_pe_does_not_launch(
    device: str, end: str, where: str, run_pes: Callable
) -> None:
    done = run_pes(2, ONE_LAUNCHES.replace("END", end), device=device, timeout=60)
    assert done.returncode
    told = rf"PE 1 is in {where} and has not launched kernel meet \(program.py:\d+\)"
    assert re.search(told + " as often as PE 0; all members launch it", done.stderr), done.stderr


#: The compiler is slow until its kernel has been told of, and for as long as reports take.
SLOW_COMPILER = """
import time
import pyshmem
from numba import cuda
from pyshmem.device.leaf.cpu import launches
from pyshmem.host import faults

made = launches.Compiled._make

def slow(self, *given):
    while "its kernel is compiled" not in faults.report():
        time.sleep(0.1)
    time.sleep(2)
    return made(self, *given)

launches.Compiled._make = slow

@cuda.jit
def fill(words):
    words[0] = 7

with pyshmem.init(device_heap_size="1M") as job:
    words = pyshmem.zeros(1, heap="device")
    fill[1, 1](words)
    print(int(pyshmem.to_numpy(words)[0]))
"""


def test_a_kernel_that_is_compiled_is_not_told_as_one_that_loops(run_pes: Callable) -> None:
    env = {"PYSHMEM_REPORT_AFTER": "1"}
    done = run_pes(2, SLOW_COMPILER, device="cpu", env=env, timeout=60, check=True)
    assert done.stdout.split() == ["7", "7"]
    told = r"PE \d compiles kernel fill \(program.py:\d+\) for its first launch at program.py:\d+"
    assert re.search(told, done.stderr), done.stderr
    assert "is no wait" not in done.stderr
    assert "has not ended" not in done.stderr


def test_collectives_of_different_teams_are_told_by_their_teams(run_pes: Callable) -> None:
    program = """
import pyshmem
with pyshmem.init() as job:
    a, b = pyshmem.zeros(4), pyshmem.ones(4)
    one, other = (pyshmem.TEAM_WORLD.split(0, 0) for _ in range(2))
    pyshmem.sum_reduce(a, b, team=one if job.my_pe else other)
"""
    done = run_pes(2, program, env={"PYSHMEM_TIMEOUT": "22"})
    assert "and so does every PE" in done.stderr
    told = re.findall(r"PE (\d) \(pid \d+\): in sum_reduce \(team (\d+), PEs 0, 1\)", done.stderr)
    assert {pe for pe, _ in told} == {"0", "1"}
    assert len({team for _, team in told}) == 2


def test_a_barrier_that_waits_for_who_waits_for_a_word_is_told(run_pes: Callable) -> None:
    program = """
import pyshmem
with pyshmem.init() as job:
    sig = pyshmem.new_signal()
    if job.my_pe == 0:
        pyshmem.barrier_all()
        pyshmem.signal_set(sig, 1, 1)
    else:
        pyshmem.signal_wait_until(sig, pyshmem.CMP_EQ, 1)
        pyshmem.barrier_all()
"""
    done = run_pes(2, program, env={"PYSHMEM_TIMEOUT": "22"})
    assert "and so does every PE" in done.stderr
    assert "in barrier_all for" in done.stderr
    assert "in signal_wait_until (== 1, seen 0) for" in done.stderr


WHERE = """
import pyshmem
from pyshmem.host.faults import report

def wait(signal):
    pyshmem.signal_wait_until(signal, pyshmem.CMP_GE, 7)

with pyshmem.init(heap_size="1M") as job:
    signal = pyshmem.new_signal()
    if job.my_pe == 0:
        wait(signal)
    elif job.my_pe == 1:
        pyshmem.barrier_nb().wait()
    else:
        while ", at program.py:6" not in report() or ", at program.py:13" not in report():
            pass
        pyshmem.signal_set(signal, 7, 0)
    if job.my_pe != 1:
        pyshmem.barrier_nb().wait()
"""


def test_others_are_told_in_which_line_of_the_program_a_pe_waits(run_pes: Callable) -> None:
    run_pes(3, WHERE, check=True, timeout=60)


def test_a_split_against_a_barrier_is_a_mismatch(run_pes: Callable) -> None:
    program = """
import pyshmem
with pyshmem.init() as job:
    pyshmem.barrier_all() if job.my_pe else pyshmem.TEAM_WORLD.split(0, 0)
"""
    done = run_pes(2, program)
    assert done.returncode == 1
    assert "MismatchError: PE 1 called finalize while PE 0 called team_split_color" in done.stderr
