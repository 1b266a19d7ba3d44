# SPDX-License-Identifier: BSD-3-Clause
"""The host reads what a kernel on a stream of Numba writes. PEs: 2."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device as shmem


@cuda.jit
def fill(data):
    i = cuda.grid(1)
    data[i] = shmem.my_pe() + i  # <1>


with pyshmem.init(device="sim") as job:
    data = pyshmem.zeros(8, np.int64, heap="device")
    stream = cuda.stream()
    fill[1, 8, stream](data)
    print(data[0])  # <2>
    stream.synchronize()
    pyshmem.barrier_all()
