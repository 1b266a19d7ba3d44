# SPDX-License-Identifier: BSD-3-Clause
"""Loads by ptr behind the group's barrier, stores behind the next one. PEs: 2."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device as shmem


@cuda.jit
def swap(data, out, peer):
    i = cuda.threadIdx.x
    for k in range(2):
        data[i] = i + k
        shmem.barrier_all_work_group()
        out[i] = shmem.ptr(data, peer)[i]
        shmem.barrier_all_work_group()


with pyshmem.init(device="sim") as job:
    me, n = job.my_pe, job.n_pes
    data, out = (pyshmem.zeros(4, np.int64, heap="device") for _ in range(2))
    swap[1, 4](data, out, 1 - me)
    cuda.synchronize()
    assert out[3] == 4
    pyshmem.barrier_all()
