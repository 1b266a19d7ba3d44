# SPDX-License-Identifier: BSD-3-Clause
"""A strided put of a group, and a signal without a fence. PEs: 2."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device as shmem


@cuda.jit
def column(grid, row, flag, out, peer):
    i = cuda.threadIdx.x
    shmem.iput_work_group(grid, row, 4, 1, 4, peer)  # <1>
    cuda.syncthreads()
    if i == 0:
        shmem.signal_set(flag, 1, peer)
        shmem.signal_wait_until(flag, shmem.CMP_EQ, 1)
    cuda.syncthreads()
    out[i] = grid[4 * i]  # <2>


with pyshmem.init(device="sim") as job:
    me, n = job.my_pe, job.n_pes
    grid = pyshmem.zeros(16, np.int64, heap="device")
    row, out = (pyshmem.zeros(4, np.int64, heap="device") for _ in range(2))
    flag = pyshmem.new_signal(heap="device")
    column[1, 4](grid, row, flag, out, 1 - me)
    pyshmem.barrier_all()
