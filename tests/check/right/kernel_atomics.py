# SPDX-License-Identifier: BSD-3-Clause
"""Counters by atomics of all threads, read behind a barrier. PEs: 2."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device as shmem


@cuda.jit
def add(data):
    shmem.atomic_add(data, 1, 0)
    cuda.atomic.add(data, 5, 1)


with pyshmem.init(device="sim") as job:
    me = job.my_pe
    data = pyshmem.zeros(8, np.int64, heap="device")
    flag = pyshmem.new_signal(heap="device")
    add[2, 4](data)
    cuda.synchronize()
    pyshmem.barrier_all()
    assert data[5] == 8
    assert me or data[0] == 16
    cuda.synchronize()
    pyshmem.barrier_all()
