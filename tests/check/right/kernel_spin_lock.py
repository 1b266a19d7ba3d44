# SPDX-License-Identifier: BSD-3-Clause
"""A spin lock of blocks on all PEs, with quiet before it is given back. PEs: 2."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device as shmem


@cuda.jit
def add(lock, total):
    while shmem.atomic_compare_swap(lock, 0, 1, 0) != 0:
        pass
    shmem.p(total, shmem.g(total, 0) + 1, 0)
    shmem.quiet()
    shmem.atomic_set(lock, 0, 0)


with pyshmem.init(device="sim") as job:
    lock, total = (pyshmem.zeros(1, np.int64, heap="device") for _ in range(2))
    add[3, 1](lock, total)
    pyshmem.barrier_all()
    print(pyshmem.g(total, 0))
