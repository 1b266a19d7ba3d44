# SPDX-License-Identifier: BSD-3-Clause
"""Reports on waits in kernels: one names every PE; host and kernels in one collective raise."""

from __future__ import annotations

from collections.abc import Callable

import pytest

NEVER = """
import pyshmem
from numba import cuda
from pyshmem import device as shmem

@cuda.jit
def wait_in_vain(sig):
    shmem.signal_wait_until(sig, shmem.CMP_GE, 7)

with pyshmem.init(device_heap_size="1M") as job:
    sig = pyshmem.new_signal(heap="device")
    wait_in_vain[1, 1](sig)
    pyshmem.quiet()
"""


def test_one_report_names_what_every_pe_waits_for(run_pes: Callable) -> None:
    done = run_pes(3, NEVER, device="sim", env={"PYSHMEM_TIMEOUT": "2"}, timeout=60)
    assert done.returncode == 1
    report = done.stderr
    assert "KernelFault: in kernel wait_in_vain (program.py:8), block 0, thread 0" in report
    for pe in range(3):
        assert f"PE {pe} (pid" in report
    assert "signal_wait_until for 7, seen 0; ring 0:" in report


MIXED = """
import time
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
    begin = time.monotonic()
    try:
        if job.my_pe == 1:
            meet[1, 32](slot)
        else:
            team.sync()
    except pyshmem.MismatchError as error:
        print(job.my_pe, time.monotonic() - begin < 4, error)
    pyshmem.barrier_all()
"""


@pytest.mark.parametrize("n_pes", [2, 3])
def test_host_and_kernel_in_one_collective_raise_on_all_pes(n_pes: int, run_pes: Callable) -> None:
    done = run_pes(n_pes, MIXED, device="sim", env={"PYSHMEM_TIMEOUT": "20"}, timeout=60)
    lines = sorted(done.stdout.splitlines())
    assert [line.split()[:2] for line in lines] == [[str(pe), "True"] for pe in range(n_pes)]
    assert all("kernel meet (program.py:" in line and "team_sync" in line for line in lines)
