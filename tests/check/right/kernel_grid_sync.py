# SPDX-License-Identifier: BSD-3-Clause
"""A grid that meets between its store and its read. PEs: 2."""

import numpy as np
from numba import cuda

import pyshmem


@cuda.jit
def shift(data):
    b = cuda.blockIdx.x
    data[b] = b
    cuda.cg.this_grid().sync()
    data[4 + b] = data[(b + 1) % 4]


with pyshmem.init(device="sim"):
    data = pyshmem.zeros(8, np.int64, heap="device")
    flag = pyshmem.new_signal(heap="device")
    shift[4, 1](data)
    cuda.synchronize()
    pyshmem.barrier_all()
