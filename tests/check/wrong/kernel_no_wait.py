# SPDX-License-Identifier: BSD-3-Clause
"""A thread reads what another has waited for, without a barrier of the block. PEs: 2."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device as shmem


@cuda.jit
def exchange(data, flag, right):
    i = cuda.threadIdx.x
    if i == 0:
        shmem.put_signal(data[:4], data[4:], flag, 1, shmem.SIGNAL_SET, right)  # <1>
        shmem.signal_wait_until(flag, shmem.CMP_EQ, 1)
    else:
        data[4 + i] += 0 * data[i]  # <2>


with pyshmem.init(device="sim") as job:
    me, n = job.my_pe, job.n_pes
    right = (me + 1) % n
    data = pyshmem.zeros(8, np.int64, heap="device")
    flag = pyshmem.new_signal(heap="device")
    exchange[1, 2](data, flag, right)
    cuda.synchronize()
    pyshmem.barrier_all()
