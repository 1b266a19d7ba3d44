# SPDX-License-Identifier: BSD-3-Clause
"""pe_quiet for one PE, and the signal goes to another that reads there. PEs: 3."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device as shmem


@cuda.jit
def work(data, flag, out):
    me = shmem.my_pe()
    if me == 0:
        shmem.p(data, 5, 1)  # <1>
        shmem.fence()
        shmem.signal_set(flag, 1, 2)
    if me == 2:
        shmem.signal_wait_until(flag, shmem.CMP_GE, 1)
        out[0] = shmem.g(data, 1)  # <2>


with pyshmem.init(device="sim") as job:
    data, out = (pyshmem.zeros(1, np.int64, heap="device") for _ in range(2))
    flag = pyshmem.new_signal(heap="device")
    work[1, 1](data, flag, out)
    pyshmem.barrier_all()
