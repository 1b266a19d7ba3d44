# SPDX-License-Identifier: BSD-3-Clause
"""Waits that last long: by default they go on, and one PE tells once where all stand."""

from __future__ import annotations

from collections.abc import Callable

LATE = """
import time, pyshmem
with pyshmem.init(heap_size="1M") as job:
    if job.my_pe == 0:
        time.sleep(2.5)
    pyshmem.barrier_all()
    print("went on")
"""


def test_a_long_wait_is_reported_once_and_goes_on(run_pes: Callable) -> None:
    done = run_pes(4, LATE, env={"PYSHMEM_REPORT_AFTER": "0.5"}, check=True)
    assert done.stdout.split("\n").count("went on") == 4
    assert done.stderr.count("the PEs stand:") == 1
    assert "in barrier_all for" in done.stderr
    assert "PE 0 (pid" in done.stderr


def test_without_a_time_nothing_is_reported(run_pes: Callable) -> None:
    done = run_pes(2, LATE, env={"PYSHMEM_REPORT_AFTER": "0"}, check=True)
    assert done.stderr == ""


def test_waits_do_not_fail_unless_asked(run_pes: Callable) -> None:
    program = "from pyshmem._core.library import setting_number\nprint(setting_number('TIMEOUT'))\n"
    assert run_pes(1, program, check=True).stdout.strip() == "0"


def test_a_second_long_wait_is_reported_too(run_pes: Callable) -> None:
    twice = LATE.replace(
        "pyshmem.barrier_all()", "pyshmem.barrier_all(); time.sleep(2 * (job.my_pe == 1))"
    )
    twice = twice.replace('print("went on")', "pyshmem.barrier_all()")
    done = run_pes(3, twice, env={"PYSHMEM_REPORT_AFTER": "0.5"}, check=True)
    assert done.stderr.count("the PEs stand:") == 2


KERNEL = """
import time, pyshmem
from numba import cuda
from pyshmem import device as shmem

@cuda.jit
def wait_for_peer(sig):
    shmem.signal_wait_until(sig, shmem.CMP_GE, 7)

with pyshmem.init(device_heap_size="1M") as job:
    sig = pyshmem.new_signal(heap="device")
    if job.my_pe == 0:
        time.sleep(3)
        pyshmem.signal_set(sig, 7, 1)
    else:
        wait_for_peer[1, 1](sig)
    pyshmem.barrier_all()
    print("went on")
"""


def test_a_long_wait_of_a_kernel_is_reported_and_goes_on(run_pes: Callable) -> None:
    done = run_pes(2, KERNEL, device="sim", env={"PYSHMEM_REPORT_AFTER": "1"}, check=True)
    assert done.stdout.split("\n").count("went on") == 2
    assert done.stderr.count("the PEs stand:") == 1
    assert "wait_for_peer" in done.stderr
