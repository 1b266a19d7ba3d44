# SPDX-License-Identifier: BSD-3-Clause
"""Four blocks put and count; a wait for two, and the first block's data are read. PEs: 2."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device as shmem


@cuda.jit
def work(box, src, count, out, peer):
    b, i = cuda.blockIdx.x, cuda.threadIdx.x
    shmem.put_work_group(box[4 * b : 4 * b + 4], src[4 * b : 4 * b + 4], peer)  # <1>
    if i == 0:
        shmem.fence()
        shmem.atomic_inc(count, peer)
    if b == 0:
        shmem.wait_until_work_group(count, shmem.CMP_GE, 2)
        out[i] = box[i]  # <2>


with pyshmem.init(device="sim") as job:
    me, n = job.my_pe, job.n_pes
    box, src = (pyshmem.ones(16, np.int64, heap="device") for _ in range(2))
    count, out = (
        pyshmem.zeros(1, np.int64, heap="device"),
        pyshmem.zeros(4, np.int64, heap="device"),
    )
    work[4, 4](box, src, count, out, 1 - me)
    cuda.synchronize()
    pyshmem.barrier_all()
