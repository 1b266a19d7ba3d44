# SPDX-License-Identifier: BSD-3-Clause
"""Block 0 waits for the signal, block 1 reads what came with it. PEs: 2."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device as shmem


@cuda.jit
def use(data, flag, out):
    i = cuda.grid(1)
    if i == 0:
        shmem.signal_wait_until(flag, shmem.CMP_EQ, 1)
    cuda.syncthreads()
    out[i] = data[i]  # <2>


with pyshmem.init(device="sim") as job:
    me, n = job.my_pe, job.n_pes
    data, out = (pyshmem.zeros(8, np.int64, heap="device") for _ in range(2))
    flag = pyshmem.new_signal(heap="device")
    pyshmem.put_signal(data, np.arange(8), flag, 1, pyshmem.SIGNAL_SET, 1 - me)  # <1>
    use[2, 4](data, flag, out)
    pyshmem.barrier_all()
