# SPDX-License-Identifier: BSD-3-Clause
"""Each thread puts; thread 0 alone fences, with no barrier before. PEs: 2."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device as shmem


@cuda.jit
def exchange(data, out, flag, right):
    i = cuda.threadIdx.x
    shmem.p(data[i:], i, right)  # <1>
    if i == 0:
        shmem.fence()
        shmem.signal_set(flag, 1, right)
    shmem.signal_wait_until(flag, shmem.CMP_EQ, 1)
    out[i] = data[3 - i]  # <2>


with pyshmem.init(device="sim") as job:
    me, n = job.my_pe, job.n_pes
    right, left = (me + 1) % n, (me - 1) % n
    data, out = (pyshmem.zeros(4, np.int64, heap="device") for _ in range(2))
    flag = pyshmem.new_signal(heap="device")
    exchange[1, 4](data, out, flag, right)
    cuda.synchronize()
    pyshmem.barrier_all()
