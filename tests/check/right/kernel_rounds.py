# SPDX-License-Identifier: BSD-3-Clause
"""Rounds with an acknowledgement, by a flag in the next array. PEs: 2."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device as shmem


@cuda.jit
def rounds(data, flag, ack, right, left):
    for turn in range(1, 4):
        shmem.put_signal(data[:4], data[4:], flag, turn, shmem.SIGNAL_SET, right)
        shmem.signal_wait_until(flag, shmem.CMP_GE, turn)
        data[7] += data[0]
        shmem.signal_set(ack, turn, left)
        shmem.signal_wait_until(ack, shmem.CMP_GE, turn)


with pyshmem.init(device="sim") as job:
    me, n = job.my_pe, job.n_pes
    right = (me + 1) % n
    data = pyshmem.zeros(8, np.int64, heap="device")
    flag = pyshmem.new_signal(heap="device")
    ack = pyshmem.new_signal(heap="device")
    left = (me - 1) % n
    rounds[1, 1](data, flag, ack, right, left)
    cuda.synchronize()
    pyshmem.barrier_all()
