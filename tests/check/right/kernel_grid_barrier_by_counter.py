# SPDX-License-Identifier: BSD-3-Clause
"""A barrier of all blocks of all PEs by a counter that grows. PEs: 2."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device as shmem


@cuda.jit
def rounds(data, count, out, me, n, total, turns):
    b = cuda.blockIdx.x
    for turn in range(1, turns + 1):
        shmem.p(data[b + me * cuda.gridDim.x :], turn, (me + 1) % n)
        shmem.quiet()
        for pe in range(n):
            shmem.atomic_inc(count, pe)
        shmem.wait_until(count, shmem.CMP_GE, total * (2 * turn - 1))
        s = 0
        for k in range(cuda.gridDim.x):
            s += data[k + ((me - 1) % n) * cuda.gridDim.x]
        out[b] = s
        for pe in range(n):
            shmem.atomic_inc(count, pe)
        shmem.wait_until(count, shmem.CMP_GE, total * 2 * turn)


with pyshmem.init(device="sim") as job:
    me, n = job.my_pe, job.n_pes
    data, out = (pyshmem.zeros(8, np.int64, heap="device") for _ in range(2))
    count = pyshmem.zeros(1, np.int64, heap="device")
    rounds[3, 1](data, count, out, me, n, 3 * n, 3)
    cuda.synchronize()
    pyshmem.barrier_all()
    assert pyshmem.to_numpy(out)[0] == 9
