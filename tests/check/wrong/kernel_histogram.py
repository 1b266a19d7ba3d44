# SPDX-License-Identifier: BSD-3-Clause
"""A histogram over PEs by plain increments. PEs: 2."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device as shmem


@cuda.jit
def count(bins):
    i = cuda.grid(1)
    old = shmem.g(bins[i % 4 :], 0)  # <1>
    shmem.p(bins[i % 4 :], old + 1, 0)  # <2>


with pyshmem.init(device="sim") as job:
    bins = pyshmem.zeros(4, np.int64, heap="device")
    count[2, 4](bins)
    pyshmem.barrier_all()
