# SPDX-License-Identifier: BSD-3-Clause
"""A sync of all PEs in the place of a barrier: puts are not complete behind it. PEs: 2."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device as shmem


@cuda.jit
def exchange(dest, out, right):
    i = cuda.threadIdx.x
    shmem.p(dest[i:], i, right)  # <1>
    shmem.sync_all_work_group()
    out[i] = dest[i]  # <2>


with pyshmem.init(device="sim") as job:
    me, n = job.my_pe, job.n_pes
    right, left = (me + 1) % n, (me - 1) % n
    dest, out = (pyshmem.zeros(4, np.int64, heap="device") for _ in range(2))
    exchange[1, 4](dest, out, right)
    cuda.synchronize()
    pyshmem.barrier_all()
    assert left >= 0
