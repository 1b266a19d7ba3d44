# SPDX-License-Identifier: BSD-3-Clause
"""A warp puts, and a thread of another warp signals without a barrier. PEs: 2."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device as shmem


@cuda.jit
def send(data, source, flag, peer):
    i = cuda.threadIdx.x
    if i < 32:
        shmem.put_warp(data, source, peer)  # <1>
        shmem.quiet()
    if i == 32:
        shmem.signal_set(flag, 1, peer)
    if i == 33:
        shmem.signal_wait_until(flag, shmem.CMP_EQ, 1)
        data[7] = data[0]  # <2>


with pyshmem.init(device="sim") as job:
    data, source = (pyshmem.zeros(8, np.int64, heap="device") for _ in range(2))
    flag = pyshmem.new_signal(heap="device")
    send[1, 64](data, source, flag, 1 - job.my_pe)
    pyshmem.barrier_all()
