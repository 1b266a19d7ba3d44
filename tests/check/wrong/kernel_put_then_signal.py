# SPDX-License-Identifier: BSD-3-Clause
"""A kernel's signal is not ordered behind its put. PEs: 2."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device as shmem


@cuda.jit
def exchange(data, flag, right):
    shmem.put(data[:4], data[4:], right)  # <1>
    shmem.signal_set(flag, 1, right)
    shmem.signal_wait_until(flag, shmem.CMP_EQ, 1)
    data[4] = data[0]  # <2>


with pyshmem.init(device="sim") as job:
    me, n = job.my_pe, job.n_pes
    right = (me + 1) % n
    data = pyshmem.zeros(8, np.int64, heap="device")
    flag = pyshmem.new_signal(heap="device")
    exchange[1, 1](data, flag, right)
    cuda.synchronize()
    pyshmem.barrier_all()
