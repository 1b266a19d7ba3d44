# SPDX-License-Identifier: BSD-3-Clause
"""A kernel loads by ptr what the peer's kernel is still writing. PEs: 2."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device as shmem


@cuda.jit
def swap(data, out, peer):
    i = cuda.threadIdx.x
    data[i] = i + 1  # <1>
    cuda.syncthreads()
    out[i] = shmem.ptr(data, peer)[i]  # <2>


with pyshmem.init(device="sim") as job:
    me, n = job.my_pe, job.n_pes
    data, out = (pyshmem.zeros(4, np.int64, heap="device") for _ in range(2))
    swap[1, 4](data, out, 1 - me)
    pyshmem.barrier_all()
