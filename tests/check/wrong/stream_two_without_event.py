# SPDX-License-Identifier: BSD-3-Clause
"""A put on one stream of what a kernel on another one makes. PEs: 2."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device as shmem  # noqa: F401


@cuda.jit
def make(a):
    a[cuda.grid(1)] = 7  # <1>


with pyshmem.init(device="sim") as job:
    a, b = (pyshmem.zeros(4, np.int64, heap="device") for _ in range(2))
    flag = pyshmem.new_signal(heap="device")
    first, second = pyshmem.streams.Stream(), pyshmem.streams.Stream()
    make[1, 4, first](a)
    pyshmem.put_signal(b, a, flag, 1, pyshmem.SIGNAL_SET, 1 - job.my_pe, stream=second)  # <2>
    first.synchronize()
    second.synchronize()
    pyshmem.barrier_all()
