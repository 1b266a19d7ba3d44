# SPDX-License-Identifier: BSD-3-Clause
"""Two buffers, one counter: the second signal may come before the first data. PEs: 2."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device as shmem


@cuda.jit
def steps(box, out, full, free, peer, n):
    i = cuda.threadIdx.x
    for k in range(n):
        if k >= 2:
            shmem.signal_wait_until_work_group(free, shmem.CMP_GE, k - 1)
        out[i] = k + i
        shmem.put_signal_work_group(box[k % 2], out, full, 1, shmem.SIGNAL_ADD, peer)  # <1>
        shmem.signal_wait_until_work_group(full, shmem.CMP_GE, k + 1)
        out[i] = box[k % 2, i]  # <2>
        cuda.syncthreads()
        if i == 0:
            shmem.signal_add(free, 1, peer)


with pyshmem.init(device="sim") as job:
    me, n = job.my_pe, job.n_pes
    box = pyshmem.zeros((2, 4), np.int64, heap="device")
    out = pyshmem.zeros(4, np.int64, heap="device")
    full_, free_ = (pyshmem.new_signal(heap="device") for _ in range(2))
    steps[1, 4](box, out, full_, free_, 1 - me, 6)
    cuda.synchronize()
    pyshmem.barrier_all()
