# SPDX-License-Identifier: BSD-3-Clause
"""One thread waits for some of the flags, and the block reads all rows. PEs: 3."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device as shmem


@cuda.jit
def gather(rows, flags, out):
    i, me, n = cuda.threadIdx.x, shmem.my_pe(), shmem.n_pes()
    if i == 0:
        for k in range(1, n):
            to = (me + k) % n
            shmem.p(rows[me, :1], me + 1, to)  # <1>
            shmem.fence()
            shmem.signal_set(flags[me:], 1, to)
        shmem.wait_until_any(flags, n, None, shmem.CMP_EQ, 1)
    cuda.syncthreads()
    out[i] = rows[i, 0]  # <2>


with pyshmem.init(device="sim") as job:
    n = job.n_pes
    rows = pyshmem.zeros((n, 4), np.int64, heap="device")
    out = pyshmem.zeros(n, np.int64, heap="device")
    flags = pyshmem.zeros(n, np.uint64, heap="device")
    gather[1, n](rows, flags, out)
    pyshmem.barrier_all()
