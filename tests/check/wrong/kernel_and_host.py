# SPDX-License-Identifier: BSD-3-Clause
"""The host reads what a peer's kernel puts, behind a sync that completes nothing. PEs: 2."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device as shmem


@cuda.jit
def send(data, right):
    shmem.put(data[:4], data[4:], right)  # <1>


with pyshmem.init(device="sim") as job:
    me, n = job.my_pe, job.n_pes
    right = (me + 1) % n
    data = pyshmem.zeros(8, np.int64, heap="device")
    flag = pyshmem.new_signal(heap="device")
    send[1, 1](data, right)
    pyshmem.sync_all()
    print(data[0])  # <2>
    cuda.synchronize()
    pyshmem.barrier_all()
