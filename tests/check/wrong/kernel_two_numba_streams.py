# SPDX-License-Identifier: BSD-3-Clause
"""Kernels of two streams of Numba, and no event between them. PEs: 2."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device as shmem


@cuda.jit
def fill(data, value):
    data[cuda.grid(1)] = value  # <1>


@cuda.jit
def send(data, source, peer):
    shmem.put(data, source, peer)  # <2>


with pyshmem.init(device="sim") as job:
    data, source = (pyshmem.zeros(8, np.int64, heap="device") for _ in range(2))
    one, other = cuda.stream(), cuda.stream()
    fill[1, 8, one](source, job.my_pe + 1)
    send[1, 1, other](data, source, 1 - job.my_pe)
    one.synchronize()
    other.synchronize()
    pyshmem.barrier_all()
