# SPDX-License-Identifier: BSD-3-Clause
"""A spin lock of a block that is given back by a plain store. PEs: 2."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device as shmem


@cuda.jit
def add(lock, total):
    while shmem.atomic_compare_swap(lock, 0, 1, 0) != 0:  # <2>
        pass
    shmem.p(total, shmem.g(total, 0) + 1, 0)
    shmem.quiet()
    shmem.p(lock, 0, 0)  # <1>


with pyshmem.init(device="sim") as job:
    lock, total = (pyshmem.zeros(1, np.int64, heap="device") for _ in range(2))
    add[1, 1](lock, total)
    pyshmem.barrier_all()
