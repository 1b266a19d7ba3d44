# SPDX-License-Identifier: BSD-3-Clause
"""Numba's copies to the host wait for the stream that they are given. PEs: 2."""

import numpy as np
from numba import cuda

import pyshmem


@cuda.jit
def fill(data, value):
    data[cuda.grid(1)] = value


with pyshmem.init(device="sim") as job:
    data = pyshmem.zeros(8, np.int64, heap="device")
    stream, event = cuda.stream(), cuda.event()
    fill[2, 4, stream](data, job.my_pe)
    fill[2, 4, stream](data, job.my_pe + 1)
    event.record(stream)
    event.synchronize()
    print(data.sum())
    fill[2, 4, stream](data, 3)
    cuda.synchronize()
    print(data.sum())
    fill[2, 4](data, 4)
    print(data.sum())
