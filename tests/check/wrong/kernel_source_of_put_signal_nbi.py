# SPDX-License-Identifier: BSD-3-Clause
"""The source of put_signal_nbi is changed in the next round. PEs: 2."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device as shmem


@cuda.jit
def rounds(box, row, flag, peer):
    i = cuda.threadIdx.x
    for k in range(2):
        row[i] = k  # <2>
        cuda.syncthreads()
        shmem.put_signal_nbi_work_group(box[k], row, flag, 1, shmem.SIGNAL_ADD, peer)  # <1>
        cuda.syncthreads()
    shmem.quiet_work_group()


with pyshmem.init(device="sim") as job:
    me, n = job.my_pe, job.n_pes
    box, row = (
        pyshmem.zeros((2, 4), np.int64, heap="device"),
        pyshmem.zeros(4, np.int64, heap="device"),
    )
    flag = pyshmem.new_signal(heap="device")
    rounds[1, 4](box, row, flag, 1 - me)
    pyshmem.barrier_all()
