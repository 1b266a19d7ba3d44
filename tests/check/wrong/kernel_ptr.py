# SPDX-License-Identifier: BSD-3-Clause
"""A store through ptr, and a signal without a fence. PEs: 2."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device as shmem


@cuda.jit
def send(data, flag, right):
    there = shmem.ptr(data, right)
    there[2] = 5  # <1>
    shmem.signal_set(flag, 1, right)


@cuda.jit
def use(data, flag):
    shmem.signal_wait_until(flag, shmem.CMP_EQ, 1)
    data[5] = data[2]  # <2>


with pyshmem.init(device="sim") as job:
    me, n = job.my_pe, job.n_pes
    right = (me + 1) % n
    data = pyshmem.zeros(8, np.int64, heap="device")
    flag = pyshmem.new_signal(heap="device")
    send[1, 1](data, flag, right)
    use[1, 1](data, flag)
    cuda.synchronize()
    pyshmem.barrier_all()
