# SPDX-License-Identifier: BSD-3-Clause
"""Blocks count by cuda.atomic, and one waits until all have come. PEs: 2."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device as shmem


@cuda.jit
def blocks(part, total, count):
    b = cuda.blockIdx.x
    part[b] = b + 1
    cuda.threadfence()
    cuda.atomic.add(count, 0, 1)
    if b == 0:
        shmem.wait_until(count, shmem.CMP_GE, 3)
        total[0] = part[0] + part[1] + part[2]


with pyshmem.init(device="sim") as job:
    me, n = job.my_pe, job.n_pes
    part, total, count = (pyshmem.zeros(4, np.int64, heap="device") for _ in range(3))
    blocks[3, 1](part, total, count)
    cuda.synchronize()
    assert pyshmem.to_numpy(total)[0] == 6
    pyshmem.barrier_all()
