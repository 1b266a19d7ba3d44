# SPDX-License-Identifier: BSD-3-Clause
"""Blocks read what other blocks store. PEs: 2."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device


@cuda.jit
def shift(data):
    b = cuda.blockIdx.x
    data[b] = b  # <1>
    cuda.syncthreads()
    data[4 + b] = data[(b + 1) % 4]  # <2>


with pyshmem.init(device="sim"):
    data = pyshmem.zeros(8, np.int64, heap="device")
    flag = pyshmem.new_signal(heap="device")
    shift[4, 1](data)
    cuda.synchronize()
    pyshmem.barrier_all()
