# SPDX-License-Identifier: BSD-3-Clause
"""Numba's atomics and a peer's put. PEs: 2."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device as shmem


@cuda.jit
def mix(data, me):
    if me == 0:
        cuda.atomic.add(data, 0, 1)  # <1>
    else:
        shmem.p(data, 7, 0)  # <2>


with pyshmem.init(device="sim") as job:
    me = job.my_pe
    data = pyshmem.zeros(8, np.int64, heap="device")
    flag = pyshmem.new_signal(heap="device")
    mix[1, 1](data, me)
    cuda.synchronize()
    pyshmem.barrier_all()
