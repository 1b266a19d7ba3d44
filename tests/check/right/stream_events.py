# SPDX-License-Identifier: BSD-3-Clause
"""Two streams, and an event between them; cuda.synchronize waits for both. PEs: 2."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device as shmem  # noqa: F401


@cuda.jit
def fill(data, value):
    i = cuda.grid(1)
    data[i] = value + i


with pyshmem.init(device="sim") as job:
    right = (job.my_pe + 1) % job.n_pes
    data, source = (pyshmem.zeros(4, np.int64, heap="device") for _ in range(2))
    one, other = pyshmem.streams.Stream(), pyshmem.streams.Stream()
    filled = cuda.event()
    fill[2, 2, one](source, job.my_pe)
    filled.record(one)
    filled.wait(other)
    pyshmem.put(data, source, right, stream=other)
    pyshmem.barrier_all(stream=other)
    cuda.synchronize()
    print(data.sum(), source.sum())
    pyshmem.sync_all()
    fill[2, 2, one](data, 7)
    filled.record(one)
    filled.synchronize()
    print(data[0])
