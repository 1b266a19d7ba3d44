# SPDX-License-Identifier: BSD-3-Clause
"""One thread puts what others have stored, without a barrier of the block. PEs: 2."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device as shmem


@cuda.jit
def send(data, flag, right):
    i = cuda.threadIdx.x
    data[4 + i] = i  # <1>
    if i == 0:
        shmem.put_signal(data[:4], data[4:], flag, 1, shmem.SIGNAL_SET, right)  # <2>


with pyshmem.init(device="sim") as job:
    me, n = job.my_pe, job.n_pes
    right = (me + 1) % n
    data = pyshmem.zeros(8, np.int64, heap="device")
    flag = pyshmem.new_signal(heap="device")
    send[1, 4](data, flag, right)
    cuda.synchronize()
    pyshmem.barrier_all()
