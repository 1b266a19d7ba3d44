# SPDX-License-Identifier: BSD-3-Clause
"""The next round is put before the receiver has read the last. PEs: 2."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device as shmem


@cuda.jit
def send(data, flag, right):
    for turn in range(1, 3):
        shmem.put_signal(data[:4], data[4:], flag, turn, shmem.SIGNAL_SET, right)  # <1> <2>
        shmem.signal_wait_until(flag, shmem.CMP_GE, turn)
        data[7] += data[0]


with pyshmem.init(device="sim") as job:
    me, n = job.my_pe, job.n_pes
    right = (me + 1) % n
    data = pyshmem.zeros(8, np.int64, heap="device")
    flag = pyshmem.new_signal(heap="device")
    send[1, 1](data, flag, right)
    cuda.synchronize()
    pyshmem.barrier_all()
