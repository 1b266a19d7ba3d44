# SPDX-License-Identifier: BSD-3-Clause
"""The second kernel reads what the first one of the neighbour puts. PEs: 2."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device as shmem


@cuda.jit
def send(data, right):
    i = cuda.grid(1)
    shmem.p(data[i:], i, right)  # <1>
    shmem.quiet()


@cuda.jit
def use(data, out):
    i = cuda.grid(1)
    out[i] = data[i]  # <2>


with pyshmem.init(device="sim") as job:
    me, n = job.my_pe, job.n_pes
    right, left = (me + 1) % n, (me - 1) % n
    data, out = (pyshmem.zeros(4, np.int64, heap="device") for _ in range(2))
    send[2, 2](data, right)
    use[2, 2](data, out)
    cuda.synchronize()
    pyshmem.barrier_all()
    assert left >= 0
