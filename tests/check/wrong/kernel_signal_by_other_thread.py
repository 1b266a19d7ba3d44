# SPDX-License-Identifier: BSD-3-Clause
"""Thread 0 signals without a barrier behind the other threads' puts. PEs: 2."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device as shmem


@cuda.jit
def push(data, flag, out):
    peer = 1 - shmem.my_pe()
    i = cuda.threadIdx.x
    shmem.p(data[i:], 10 + i, peer)  # <1>
    if i == 0:
        shmem.fence()
        shmem.signal_op(flag, 1, shmem.SIGNAL_SET, peer)
        shmem.signal_wait_until(flag, shmem.CMP_GE, 1)
    cuda.syncthreads()
    out[i] = data[i]  # <2>


with pyshmem.init(device="sim") as job:
    data, out = (pyshmem.zeros(8, np.int64, heap="device") for _ in range(2))
    flag = pyshmem.new_signal(heap="device")
    push[1, 8](data, flag, out)
    pyshmem.barrier_all()
