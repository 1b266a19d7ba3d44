# SPDX-License-Identifier: BSD-3-Clause
"""A job that has Numba and no GPU, and runs no kernel, does not pay for the simulator."""

from __future__ import annotations

from collections.abc import Callable

import pytest

pytestmark = pytest.mark.serial

IDLE = """
import os
import numpy as np
import pyshmem

def threads():
    return len(os.listdir("/proc/self/task"))

def resident_kb():
    found, total = False, 0
    for line in open("/proc/self/smaps"):
        words = line.split()
        if "-" in words[0]:
            found = "pyshmem-device-heap" in line
        elif found and words[0] == "Rss:":
            total += int(words[1])
    return total

before = threads()
with pyshmem.init(heap_size="1M", device_heap_size="64M") as job:
    assert job.device == "sim"
    pyshmem.barrier_all()
    assert threads() == before, (before, threads())
    assert resident_kb() < 256, resident_kb()
    array = pyshmem.zeros(8, dtype=np.int64, heap="device")  # the heap is there without a proxy
    pyshmem.put(array, np.arange(8), (job.my_pe + 1) % job.n_pes)
    pyshmem.barrier_all()
    assert (pyshmem.to_numpy(array) == np.arange(8)).all()
    assert threads() == before
print("ok")
"""

KERNEL = """
import os
import numpy as np
import pyshmem
from numba import cuda
from pyshmem import device as shmem

@cuda.jit
def tell(array):
    shmem.p(array, shmem.my_pe() + 1, (shmem.my_pe() + 1) % shmem.n_pes())

with pyshmem.init(heap_size="1M", device_heap_size="1M") as job:
    array = pyshmem.zeros(1, dtype=np.int64, heap="device")
    tell[1, 1](array)
    pyshmem.barrier_all()
    assert pyshmem.to_numpy(array)[0] == (job.my_pe - 1) % job.n_pes + 1
print("ok")
"""


def test_a_job_without_kernels_has_no_proxy_and_no_pages(run_pes: Callable) -> None:
    done = run_pes(2, IDLE, device="auto", env={"NUMBA_ENABLE_CUDASIM": "1"}, check=True)
    assert done.stdout.split() == ["ok"] * 2


@pytest.mark.parametrize("p2p", ["0", "1"])
def test_the_proxy_is_there_for_the_first_kernel(p2p: str, run_pes: Callable) -> None:
    done = run_pes(2, KERNEL, device="sim", env={"PYSHMEM_P2P": p2p}, check=True)
    assert done.stdout.split() == ["ok"] * 2


def test_more_pes_than_kernels_reach_have_no_device_by_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from pyshmem import choose_device

    monkeypatch.setenv("NUMBA_ENABLE_CUDASIM", "1")
    monkeypatch.delenv("PYSHMEM_DEVICE", raising=False)
    assert [choose_device(n_pes=n) for n in (128, 129)] == ["sim", "none"]
    assert choose_device("sim", 129) == "sim"  # refused by init, with the reason
