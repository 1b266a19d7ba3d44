# SPDX-License-Identifier: BSD-3-Clause
"""A block's put and a block's read of the peer, without a wait. PEs: 2."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device as shmem


@cuda.jit
def exchange(data, right):
    i = cuda.threadIdx.x
    shmem.put_work_group(data[:4], data[4:], right)  # <1>
    shmem.quiet()
    data[4 + i] = data[i]  # <2>


with pyshmem.init(device="sim") as job:
    me, n = job.my_pe, job.n_pes
    right = (me + 1) % n
    data = pyshmem.zeros(8, np.int64, heap="device")
    flag = pyshmem.new_signal(heap="device")
    exchange[1, 4](data, right)
    cuda.synchronize()
    pyshmem.barrier_all()
