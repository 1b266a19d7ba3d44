# SPDX-License-Identifier: BSD-3-Clause
"""A counter of atomics is read plainly by a kernel. PEs: 2."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device as shmem


@cuda.jit
def add(data):
    shmem.atomic_add(data, 1, 0)  # <1>


@cuda.jit
def look(data):
    data[4] = data[0]  # <2>


with pyshmem.init(device="sim") as job:
    me = job.my_pe
    data = pyshmem.zeros(8, np.int64, heap="device")
    flag = pyshmem.new_signal(heap="device")
    add[1, 2](data)
    if me == 0:
        look[1, 1](data)
    cuda.synchronize()
    pyshmem.barrier_all()
