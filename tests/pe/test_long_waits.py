# SPDX-License-Identifier: BSD-3-Clause
"""Waits that last long: by default they go on, and one PE tells once where all stand."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import pyshmem

#: Time in which a PE runs, for in which its machine stands still none of them waits.
SPEND = """
import time, pyshmem
def spend(seconds):
    for _ in range(int(100 * seconds)):
        time.sleep(0.01)
"""

LATE = (
    SPEND
    + """
with pyshmem.init(heap_size="1M") as job:
    if job.my_pe == 0:
        spend(2.5)
    pyshmem.barrier_all()
    print("went on")
"""
)


def test_a_long_wait_is_reported_once_and_goes_on(run_pes: Callable) -> None:
    done = run_pes(4, LATE, env={"PYSHMEM_REPORT_AFTER": "0.5"}, check=True)
    assert done.stdout.split("\n").count("went on") == 4
    assert done.stderr.count("waits in barrier_all for") == 1
    assert "in barrier_all for" in done.stderr
    assert "PE 0 (pid" in done.stderr


def test_a_time_that_is_set_behind_init_is_told(run_pes: Callable) -> None:
    late = LATE.replace("with pyshmem.init", "import os\nwith pyshmem.init", 1)
    assert late != LATE
    late = re.sub(r"(with pyshmem.init.*\n)", r"\1    os.environ['PYSHMEM_TIMEOUT'] = '20'\n", late)
    done = run_pes(4, late, env={"PYSHMEM_REPORT_AFTER": "0.5"}, check=True)
    assert "PYSHMEM_TIMEOUT was set behind init" in done.stderr


def test_without_a_time_nothing_is_reported(run_pes: Callable) -> None:
    done = run_pes(2, LATE, env={"PYSHMEM_REPORT_AFTER": "0"}, check=True)
    assert done.stderr == ""


def test_waits_do_not_fail_unless_asked(run_pes: Callable) -> None:
    program = "from pyshmem._core.library import setting_number\nprint(setting_number('TIMEOUT'))\n"
    assert run_pes(1, program, check=True).stdout.strip() == "0"


def test_a_second_long_wait_is_reported_too(run_pes: Callable) -> None:
    twice = LATE.replace(
        "pyshmem.barrier_all()", "pyshmem.barrier_all(); spend(2 * (job.my_pe == 1))"
    )
    twice = twice.replace('print("went on")', "pyshmem.barrier_all()")
    done = run_pes(3, twice, env={"PYSHMEM_REPORT_AFTER": "0.5"}, check=True)
    assert done.stderr.count("waits in barrier_all for") == 2


#: PE 1 has both stopped for longer than either may wait, and comes when they go on.
STOPPED = """
import os, subprocess, sys, time
import numpy as np
import pyshmem
from numba import cuda
from pyshmem import device as shmem

@cuda.jit
def wait_for_peer(sig):
    shmem.signal_wait_until(sig, shmem.CMP_GE, 7)

with pyshmem.init(heap_size="1M", device_heap_size="1M") as job:
    sig, pids = pyshmem.new_signal(heap="device"), pyshmem.zeros(2, np.int64)
    pyshmem.fcollect(pids, pyshmem.full(1, os.getpid(), dtype=np.int64))
    if job.my_pe == 1:
        both = f"{pids[0]} {pids[1]}"
        subprocess.Popen(["sh", "-c", f"sleep 1; kill -STOP {both}; sleep 6; kill -CONT {both}"])
        passed = 0
        while passed < 4:
            begin = time.monotonic()
            time.sleep(0.01)
            passed = time.monotonic() - begin
        pyshmem.signal_set(sig, 7, 0)
    elif sys.argv[1] == "kernel":
        wait_for_peer[1, 1](sig)
    else:
        pyshmem.signal_wait_until(sig, pyshmem.CMP_GE, 7)
    pyshmem.quiet()
"""


@pytest.mark.parametrize("who", ["host", "kernel"])
def test_a_pe_that_is_stopped_does_not_wait_meanwhile(who: str, run_pes: Callable) -> None:
    run_pes(2, STOPPED, [who], device="sim", env={"PYSHMEM_TIMEOUT": "4"}, check=True)


SLEEPER = """
import os, signal, subprocess
import pyshmem

with pyshmem.init(heap_size="1M") as job:
    if job.my_pe == 1:
        subprocess.Popen(["sh", "-c", f"sleep 3; kill -CONT {os.getpid()}"])
        os.kill(os.getpid(), signal.SIGSTOP)
    pyshmem.barrier_all()
"""


def test_the_report_says_who_is_stopped(run_pes: Callable) -> None:
    done = run_pes(3, SLEEPER, env={"PYSHMEM_REPORT_AFTER": "1"}, check=True)
    told = r"PE 1 \(pid (\d+)\): running, stopped by a signal \(kill -CONT \1 lets it go on\)"
    assert re.search(told, done.stderr), done.stderr
    assert done.stderr.count("stopped by") == 1


#: PE 2 comes to its end while the others wait for what only it could have done.
NOBODY_LEFT = """
import sys
import numpy as np
import pyshmem
from numba import cuda
from pyshmem import device as shmem

@cuda.jit
def wait_for_peer(sig):
    shmem.signal_wait_until(sig, shmem.CMP_GE, 7)

@cuda.jit
def spin(sig):
    while sig[0] < 7:
        pass

with pyshmem.init(heap_size="1M", device_heap_size="1M") as job:
    word, sig = pyshmem.zeros(2, np.int64), pyshmem.new_signal(heap="device")
    lock = pyshmem.zeros(1, np.int64)
    two, stream = pyshmem.TEAM_WORLD.split_strided(0, 1, 2), pyshmem.streams.Stream()
    if job.my_pe == 2 and sys.argv[1] == "lock":
        pyshmem.set_lock(lock)
    pyshmem.barrier_all()
    if job.my_pe < 2:
        if sys.argv[1] == "lock":
            pyshmem.set_lock(lock)
        elif sys.argv[1] == "kernel":
            wait_for_peer[1, 1](sig)
        elif sys.argv[1] == "spin":
            spin[1, 1](sig)
        elif sys.argv[1] == "stream":
            pyshmem.signal_wait_until(sig, pyshmem.CMP_GE, 7, stream=stream)
            stream.synchronize()
        elif sys.argv[1] == "on_stream" and job.my_pe == 0:
            two.sync(stream=stream)
            stream.synchronize()
        elif sys.argv[1] == "request" and job.my_pe == 0:
            pyshmem.barrier_nb(team=two).wait()
        elif sys.argv[1] == "words":
            pyshmem.wait_until_all(word, pyshmem.CMP_NE, 0)
        else:
            pyshmem.signal_wait_until(sig, pyshmem.CMP_GE, 7)
"""


@pytest.mark.parametrize(
    ("who", "stands"),
    [
        ("lock", r"waits in set_lock \(held by PE 2\) for"),
        ("words", r"waits in wait_until_all \(!= 0, seen 0 in element 0; 1 more\) for"),
        ("signal", r"waits in signal_wait_until \(>= 7, seen 0\) for"),
        (
            "kernel",
            r"waits in kernel wait_for_peer \(program.py:\d+\), launched at program.py:\d+, for",
        ),
        (
            "spin",
            r"polls in kernel spin \(program.py:\d+\), launched at program.py:\d+ with \[1, 1\], for",
        ),
        ("stream", r"waits in stream.synchronize \(the stream waits for >= 7, seen 0\) for"),
        (
            "on_stream",
            r"kernel team_sync on a stream, block 0, thread 0, team_sync for \d+ from PE 1",
        ),
        ("request", r"PE 0 \(pid \d+\): in barrier_nb \(team \d+, PEs 0, 1\) for"),
    ],
)
def test_who_waits_for_pes_in_finalize_is_told_of_soon(
    who: str, stands: str, run_pes: Callable
) -> None:
    done = run_pes(3, NOBODY_LEFT, [who], device="sim", env={"PYSHMEM_TIMEOUT": "8"})
    assert re.search(stands, done.stderr), done.stderr
    assert done.stderr.count("no PE is left that could end that") == 1
    assert re.search(r"PE 2 \(pid \d+\): in finalize for", done.stderr), done.stderr


@pytest.mark.parametrize("meanwhile", ["", "stream", "kernel", "thread"])
def test_who_waits_for_a_pe_that_runs_is_not(meanwhile: str, run_pes: Callable) -> None:
    """Nor where a stream, or a thread, of that PE waits: its program may be what ends that."""
    waits = {
        "": "pass",
        "stream": "pyshmem.signal_wait_until(sig, pyshmem.CMP_GE, 7, stream=stream)",
        "kernel": "wait_for_peer[1, 1, stream](sig)",
        "thread": "import threading as t; wait = pyshmem.signal_wait_until\n"
        "        t.Thread(target=wait, args=(sig, pyshmem.CMP_GE, 7)).start()",
    }
    late = "import time\n        time.sleep(5)\n        pyshmem.signal_set(sig, 7, 0)\n"
    late = f"{waits[meanwhile]}\n        {late}        pyshmem.signal_set(sig, 7, 1)\n"
    program = NOBODY_LEFT.replace(
        "if job.my_pe < 2:\n", f"if job.my_pe == 1:\n        {late}    elif job.my_pe == 0:\n"
    )
    done = run_pes(3, program, ["signal"], device="sim", check=True)
    assert "waits in" not in done.stderr


#: A loop of tests is no wait. The last PE comes to its end, after a while or at once; the others go on
#: until a report is in the file that is their stderr.
POLLS = """
import os, sys, time
import numpy as np
import pyshmem

how, late, report = sys.argv[1], float(sys.argv[2]), sys.argv[3]
with pyshmem.init(heap_size="1M") as job:
    word, sig, lock = pyshmem.zeros(2, np.int64), pyshmem.new_signal(), pyshmem.zeros(1, np.int64)
    last = job.my_pe == job.n_pes - 1
    if last:
        pyshmem.set_lock(lock)
    pyshmem.barrier_all()
    os.dup2(os.open(report, os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
    looks = {
        "test": lambda: pyshmem.test(word[:1], pyshmem.CMP_EQ, 7),
        "sleeps": lambda: time.sleep(0.001) or pyshmem.test(word[:1], pyshmem.CMP_EQ, 7),
        "holds": lambda: not pyshmem.test(word[:1], pyshmem.CMP_EQ, 0),
        "any": lambda: pyshmem.test_any(word, pyshmem.CMP_NE, 0) is not None,
        "all": lambda: pyshmem.test_all(word, pyshmem.CMP_NE, 0),
        "some": lambda: len(pyshmem.test_some(word, pyshmem.CMP_NE, 0)),
        "signal": lambda: pyshmem.signal_fetch(sig) == 7,
        "lock": lambda: pyshmem.test_lock(lock),
        "read": lambda: pyshmem.g(word, 2),
        "fetch": lambda: pyshmem.atomic_fetch(word[1:], 2),
        "swap": lambda: pyshmem.atomic_compare_swap(word, 1, 2, 2),
        "words": lambda: pyshmem.g(word, 2) or pyshmem.g(word[1:], 2) or time.time() > begin + 8,
    }
    begin = time.time()
    if last:
        time.sleep(late)
        if late:
            pyshmem.p(word[:1], 7, 0)
            pyshmem.p(word[:1], 7, 1)
    elif job.my_pe == 1 and how == "test":
        pyshmem.wait_until(word[:1], pyshmem.CMP_EQ, 7)
    else:
        while not looks[how]() and not os.fstat(2).st_size:
            pass
        pyshmem.p(word[:1], 7, 1)
"""


@pytest.mark.parametrize(
    ("how", "stands"),
    [
        ("test", r"test \(== 7, seen 0\)"),
        ("sleeps", r"test \(== 7, seen 0\)"),
        ("holds", r"test \(== 0, seen 0\)"),
        ("any", r"test_any \(!= 0, seen 0 in element 0; 1 more\)"),
        ("all", r"test_all \(!= 0, seen 0 in element 0; 1 more\)"),
        ("some", r"test_some \(!= 0, seen 0 in element 0; 1 more\)"),
        ("signal", r"signal_fetch \(seen 0\)"),
        ("lock", r"test_lock \(held by PE 2\)"),
        ("read", r"reads \(of PE 2, the same again\)"),
        ("fetch", r"atomics \(of PE 2, the same again\)"),
        ("swap", r"atomics \(of PE 2, the same again\)"),
    ],
)
def test_a_loop_of_tests_that_nobody_can_end_is_told_of(
    how: str, stands: str, run_pes: Callable, tmp_path: Path
) -> None:
    report = tmp_path / "report"
    run_pes(3, POLLS, [how, 0, report], check=True)
    told = report.read_text()
    assert told.count("no PE is left that could end that") == 1, told
    assert re.search(rf"PE 0 \(pid \d+\): in a loop of {stands} for .*, at program.py:\d+", told), (
        told
    )
    assert re.search(r"PE 2 \(pid \d+\): in finalize for", told), told


EVERYBODY = """
import os, sys, time
import numpy as np
import pyshmem

with pyshmem.init(heap_size="1M") as job:
    word = pyshmem.zeros(1, np.int64)
    os.dup2(os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
    while not pyshmem.test(word, pyshmem.CMP_EQ, 7) and not os.fstat(2).st_size:
        pass
    pyshmem.p(word, 7, 1 - job.my_pe)
"""


def test_loops_of_tests_of_every_pe_are_told_of(run_pes: Callable, tmp_path: Path) -> None:
    report = tmp_path / "report"
    run_pes(2, EVERYBODY, [report], env={"PYSHMEM_REPORT_AFTER": "2"}, check=True)
    told = report.read_text()
    assert told.count("every PE polls or waits") == 1, told
    for pe in range(2):
        line = rf"PE {pe} \(pid \d+\): in a loop of test \(== 7, seen 0\) for .*, at program.py:\d+"
        assert re.search(line, told), told


@pytest.mark.parametrize(("how", "late"), [("any", 5), ("words", 0)])
def test_a_loop_of_tests_that_a_pe_can_end_is_not(
    how: str, late: float, run_pes: Callable, tmp_path: Path
) -> None:
    """Nor one that reads several words in turn, which may be work."""
    report = tmp_path / "report"
    run_pes(3, POLLS, [how, late, report], check=True)
    assert report.read_text() == ""


KERNEL = (
    SPEND
    + """
from numba import cuda
from pyshmem import device as shmem

@cuda.jit
def wait_for_peer(sig):
    shmem.signal_wait_until(sig, shmem.CMP_GE, 7)

with pyshmem.init(device_heap_size="1M") as job:
    sig = pyshmem.new_signal(heap="device")
    if job.my_pe == 0:
        spend(3)
        pyshmem.signal_set(sig, 7, 1)
    else:
        wait_for_peer[1, 1](sig)
    pyshmem.barrier_all()
    print("went on")
"""
)


def test_a_long_wait_of_a_kernel_is_reported_and_goes_on(run_pes: Callable) -> None:
    done = run_pes(2, KERNEL, device="sim", env={"PYSHMEM_REPORT_AFTER": "1"}, check=True)
    assert done.stdout.split("\n").count("went on") == 2
    assert done.stderr.count("waits in kernel wait_for_peer (program.py:") == 1
    assert "wait_for_peer" in done.stderr


@pytest.mark.pes(1, env={"PYSHMEM_DEVICE": "sim", "PYSHMEM_TIMEOUT": "3"})
def test_a_kernel_that_only_polls_does_not_stand_still() -> None:
    """A wait for a lock looks at the clock after 64 polls, and sleeps three times in each."""
    from numba import cuda

    from pyshmem._core.library import lib
    from pyshmem.device import set_lock

    @cuda.jit
    def take(lock):
        set_lock(lock)

    def times() -> tuple[int, int]:
        return lib.ishmemx_leaf_now(), lib.ishmemx_leaf_time_awake()

    lock = pyshmem.zeros(1, np.int64, heap="device")
    take[1, 1](lock)
    now, awake = times()
    with pytest.raises(pyshmem.KernelFault, match="waited longer than PYSHMEM_TIMEOUT"):
        take[1, 1](lock)
    later, still_awake = times()
    assert still_awake - awake > 0.6 * (later - now)
