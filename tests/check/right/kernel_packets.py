# SPDX-License-Identifier: BSD-3-Clause
"""Words with their own flags, each waited for by the thread that reads it. PEs: 2."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device as shmem


@cuda.jit
def packets(data, right):
    i = cuda.threadIdx.x
    shmem.p(data[i:], (1 << 32) | i, right)
    shmem.wait_until(data[i:], shmem.CMP_GE, 1 << 32)
    data[4 + i] = data[i] & 0xFFFF


with pyshmem.init(device="sim") as job:
    me, n = job.my_pe, job.n_pes
    right = (me + 1) % n
    data = pyshmem.zeros(8, np.int64, heap="device")
    flag = pyshmem.new_signal(heap="device")
    packets[1, 4](data, right)
    cuda.synchronize()
    pyshmem.barrier_all()
