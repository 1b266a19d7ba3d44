# SPDX-License-Identifier: BSD-3-Clause
"""Two blocks store to one element. PEs: 2."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device


@cuda.jit
def count(data):
    data[0] += 1  # <1> <2>


with pyshmem.init(device="sim"):
    data = pyshmem.zeros(8, np.int64, heap="device")
    flag = pyshmem.new_signal(heap="device")
    count[2, 1](data)
    cuda.synchronize()
    pyshmem.barrier_all()
