# SPDX-License-Identifier: BSD-3-Clause
"""Two blocks of one kernel copy tiles that overlap by one element. PEs: 2."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device as shmem


@cuda.jit
def tiles(data, source, peer):
    b = cuda.blockIdx.x
    shmem.put_work_group(data[3 * b : 3 * b + 4], source[4 * b : 4 * b + 4], peer)  # <1> <2>


with pyshmem.init(device="sim") as job:
    data, source = (pyshmem.zeros(8, np.int64, heap="device") for _ in range(2))
    source[:] = np.arange(8)
    tiles[2, 4](data, source, 1 - job.my_pe)
    pyshmem.barrier_all()
