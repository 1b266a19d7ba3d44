# SPDX-License-Identifier: BSD-3-Clause
"""Ping-pong of blocks, each with a flag and a box of its own. PEs: 2."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device as shmem


@cuda.jit
def play(box, flag, other, first):
    b = cuda.blockIdx.x
    for turn in range(1, 4):
        if first:
            box[2 * b] = 10 * turn + b
            shmem.put_signal(
                box[2 * b + 1 :], box[2 * b :], flag[b:], turn, shmem.SIGNAL_SET, other, nelems=1
            )
            shmem.signal_wait_until(flag[b:], shmem.CMP_GE, turn)
        else:
            shmem.signal_wait_until(flag[b:], shmem.CMP_GE, turn)
            box[2 * b] = box[2 * b + 1]
            shmem.put_signal(
                box[2 * b + 1 :], box[2 * b :], flag[b:], turn, shmem.SIGNAL_SET, other, nelems=1
            )


with pyshmem.init(device="sim") as job:
    me, n = job.my_pe, job.n_pes
    right, left = (me + 1) % n, (me - 1) % n
    box = pyshmem.zeros(4, np.int64, heap="device")
    flag = pyshmem.new_signal(2, heap="device")
    play[2, 1](box, flag, right, me == 0)
    cuda.synchronize()
    pyshmem.barrier_all()
