# SPDX-License-Identifier: BSD-3-Clause
"""The event is recorded before the kernel that it is meant to stand for. PEs: 2."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device as shmem  # noqa: F401


@cuda.jit
def fill(data, value):
    i = cuda.grid(1)
    data[i] = value + i  # <1>


with pyshmem.init(device="sim") as job:
    right = (job.my_pe + 1) % job.n_pes
    data, source = (pyshmem.zeros(4, np.int64, heap="device") for _ in range(2))
    one, other = pyshmem.streams.Stream(), pyshmem.streams.Stream()
    filled = cuda.event()
    filled.record(one)
    fill[2, 2, one](source, job.my_pe)
    filled.wait(other)
    pyshmem.put(data, source, right, stream=other)  # <2>
    cuda.synchronize()
    pyshmem.barrier_all()
