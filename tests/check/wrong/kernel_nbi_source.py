# SPDX-License-Identifier: BSD-3-Clause
"""The source of a non-blocking put is stored to before quiet. PEs: 2."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device as shmem


@cuda.jit
def send(data, right):
    shmem.put_nbi(data[:4], data[4:], right)  # <1>
    data[4] = 1  # <2>
    shmem.quiet()


with pyshmem.init(device="sim") as job:
    me, n = job.my_pe, job.n_pes
    right = (me + 1) % n
    data = pyshmem.zeros(8, np.int64, heap="device")
    flag = pyshmem.new_signal(heap="device")
    send[1, 1](data, right)
    cuda.synchronize()
    pyshmem.barrier_all()
