# SPDX-License-Identifier: BSD-3-Clause
"""Two buffers by turns, each with a counter of its own for full, and one for free. PEs: 2."""

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
        b = k % 2
        shmem.put_signal_work_group(box[b], out, full[b:], 1, shmem.SIGNAL_ADD, peer)
        shmem.signal_wait_until_work_group(full[b:], shmem.CMP_GE, k // 2 + 1)
        out[i] = box[k % 2, i]
        cuda.syncthreads()
        if i == 0:
            shmem.signal_add(free, 1, peer)


with pyshmem.init(device="sim") as job:
    me = job.my_pe
    peer = 1 - me
    box, out = (
        pyshmem.zeros((2, 4), np.int64, heap="device"),
        pyshmem.zeros(4, np.int64, heap="device"),
    )
    full_, free_ = pyshmem.new_signal(2, heap="device"), pyshmem.new_signal(heap="device")
    steps[1, 4](box, out, full_, free_, peer, 6)
    cuda.synchronize()
    pyshmem.barrier_all()
