# SPDX-License-Identifier: BSD-3-Clause
"""Thread 0 waits, and the others read without a barrier behind it. PEs: 2."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device as shmem


@cuda.jit
def exchange(data, out, flag, right):
    i = cuda.threadIdx.x
    if i == 0:
        shmem.put_signal(data, out, flag, 1, shmem.SIGNAL_SET, right, nelems=4)  # <1>
        shmem.signal_wait_until(flag, shmem.CMP_EQ, 1)
    out[4 + i] = data[i]  # <2>


with pyshmem.init(device="sim") as job:
    me, n = job.my_pe, job.n_pes
    right, left = (me + 1) % n, (me - 1) % n
    data, out = (pyshmem.zeros(8, np.int64, heap="device") for _ in range(2))
    flag = pyshmem.new_signal(heap="device")
    exchange[1, 4](data, out, flag, right)
    cuda.synchronize()
    pyshmem.barrier_all()
