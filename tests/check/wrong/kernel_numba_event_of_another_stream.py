# SPDX-License-Identifier: BSD-3-Clause
"""The event was recorded on a stream that has done nothing. PEs: 2."""

import numpy as np
from numba import cuda

import pyshmem


@cuda.jit
def fill(data, value):
    data[cuda.grid(1)] = value  # <1>


with pyshmem.init(device="sim") as job:
    data = pyshmem.zeros(8, np.int64, heap="device")
    one, other = cuda.stream(), cuda.stream()
    event = cuda.event()
    fill[1, 8, one](data, job.my_pe + 1)
    event.record(other)
    event.synchronize()
    print(data[3])  # <2>
    cuda.synchronize()
    pyshmem.barrier_all()
