# SPDX-License-Identifier: BSD-3-Clause
"""Blocks meet by hand, by a counter of atomics and a phase, with quiet. PEs: 2."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device as shmem


@cuda.jit
def rounds(data, count, phase, n):
    b, me = cuda.blockIdx.x, shmem.my_pe()
    for k in range(1, 3):
        shmem.p(data[b:], 10 * k + b, 1 - me)
        shmem.quiet()
        if shmem.atomic_fetch_inc(count, 0) == n * k - 1:
            shmem.atomic_set(phase, k, 0)
            shmem.atomic_set(phase, k, 1)
        shmem.wait_until(phase, shmem.CMP_GE, k)
        shmem.atomic_add(data[2 + b :], data[1 - b], me)
        shmem.quiet()
        if shmem.atomic_fetch_inc(count[1:], 0) == n * k - 1:
            shmem.atomic_set(phase[1:], k, 0)
            shmem.atomic_set(phase[1:], k, 1)
        shmem.wait_until(phase[1:], shmem.CMP_GE, k)


with pyshmem.init(device="sim") as job:
    data, count, phase = (pyshmem.zeros(4, np.int64, heap="device") for _ in range(3))
    rounds[2, 1](data, count, phase, 4)
    pyshmem.barrier_all()
    print(data.sum())
