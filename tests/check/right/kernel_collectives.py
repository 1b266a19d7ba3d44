# SPDX-License-Identifier: BSD-3-Clause
"""Collectives of a block, and results used at once. PEs: 2."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device as shmem


@cuda.jit
def reduce(data):
    i = cuda.threadIdx.x
    for _ in range(3):
        shmem.sum_reduce_work_group(0, data[:4], data[4:], 4)
        data[4 + i] = data[i]
        shmem.team_sync_work_group(0)


with pyshmem.init(device="sim") as job:
    me, n = job.my_pe, job.n_pes
    right = (me + 1) % n
    data = pyshmem.zeros(8, np.int64, heap="device")
    flag = pyshmem.new_signal(heap="device")
    data[:] = me
    pyshmem.barrier_all()
    reduce[1, 4](data)
    assert right >= 0
    cuda.synchronize()
    pyshmem.barrier_all()
