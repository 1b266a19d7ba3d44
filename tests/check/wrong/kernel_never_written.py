# SPDX-License-Identifier: BSD-3-Clause
"""A kernel adds to an accumulator that nobody has set to 0. PEs: 2."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device as shmem  # noqa: F401


@cuda.jit
def add(total, values):
    i = cuda.grid(1)
    total[i] += values[i]  # <2>


with pyshmem.init(device="sim") as job:
    total = pyshmem.empty(4, np.float32, heap="device")  # <1>
    values = pyshmem.ones(4, np.float32, heap="device")
    add[1, 4](total, values)
