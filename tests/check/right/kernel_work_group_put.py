# SPDX-License-Identifier: BSD-3-Clause
"""A block puts together; a fence by one thread covers it, and the block waits together. PEs: 2."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device as shmem


@cuda.jit
def exchange(data, flag, right):
    i = cuda.threadIdx.x
    data[4 + i] = i
    shmem.put_work_group(data[:4], data[4:], right)
    if i == 0:
        shmem.fence()
        shmem.signal_set(flag, 1, right)
    shmem.signal_wait_until_work_group(flag, shmem.CMP_EQ, 1)
    data[4 + i] = data[i]


with pyshmem.init(device="sim") as job:
    me, n = job.my_pe, job.n_pes
    right = (me + 1) % n
    data = pyshmem.zeros(8, np.int64, heap="device")
    flag = pyshmem.new_signal(heap="device")
    exchange[1, 4](data, flag, right)
    cuda.synchronize()
    pyshmem.barrier_all()
