# SPDX-License-Identifier: BSD-3-Clause
"""One thread waits, the block reads; one thread gives the buffer back. PEs: 3."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device as shmem


@cuda.jit
def rounds(box, row, out, full, free, right, left, k_max):
    i = cuda.threadIdx.x
    for k in range(k_max):
        if i == 0 and k > 0:
            shmem.signal_wait_until(free, shmem.CMP_GE, k)
        row[i] = k + i
        cuda.syncthreads()
        shmem.put_signal_work_group(box, row, full, 1, shmem.SIGNAL_ADD, right)
        if i == 0:
            shmem.signal_wait_until(full, shmem.CMP_GE, k + 1)
        cuda.syncthreads()
        out[i] += box[i]
        cuda.syncthreads()
        if i == 0:
            shmem.fence()
            shmem.signal_add(free, 1, left)


with pyshmem.init(device="sim") as job:
    me, n = job.my_pe, job.n_pes
    box, row, out = (pyshmem.zeros(4, np.int64, heap="device") for _ in range(3))
    full_, free_ = (pyshmem.new_signal(heap="device") for _ in range(2))
    rounds[1, 4](box, row, out, full_, free_, (me + 1) % n, (me - 1) % n, 3)
    cuda.synchronize()
    pyshmem.barrier_all()
