# SPDX-License-Identifier: BSD-3-Clause
"""A kernel that ends the job."""

from __future__ import annotations

from collections.abc import Callable

PROGRAM = """
import pyshmem
from numba import cuda
from pyshmem import device as shmem

@cuda.jit
def give_up_on_one(sig):
    if shmem.my_pe() == 1:
        shmem.abort(7, "no way on")
    shmem.signal_wait_until(sig, shmem.CMP_EQ, 1)

with pyshmem.init():
    sig = pyshmem.new_signal(heap="device")
    pyshmem.barrier_all()
    give_up_on_one[1, 1](sig)
    cuda.synchronize()
    pyshmem.barrier_all()
"""


def test_abort_in_a_kernel_ends_the_job_with_its_code(run_pes: Callable) -> None:
    done = run_pes(3, PROGRAM, device="auto", timeout=60)
    assert done.returncode == 7, done.stderr
    assert "a kernel called abort(7): no way on (block 0, thread 0)" in done.stderr
