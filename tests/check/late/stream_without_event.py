# SPDX-License-Identifier: BSD-3-Clause
"""Nothing has one stream wait for the kernel on the other, whose result it puts. PEs: 2."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device as shmem  # noqa: F401


@cuda.jit
def fill(data, value):
    data[cuda.grid(1)] = value


with pyshmem.init(device="sim") as job:
    right = (job.my_pe + 1) % job.n_pes
    data, source = (pyshmem.zeros(4, np.int64, heap="device") for _ in range(2))
    one, other = pyshmem.streams.Stream(), pyshmem.streams.Stream()
    fill[2, 2, one](source, 3)
    pyshmem.put(data, source, right, stream=other)
    pyshmem.barrier_all(stream=other)
    cuda.synchronize()
    print(data.sum())
