# SPDX-License-Identifier: BSD-3-Clause
"""Each thread stores its element to the neighbour, the block fences, one thread signals. PEs: 2."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device as shmem


@cuda.jit
def push(data, flag, out, turn):
    peer = 1 - shmem.my_pe()
    i = cuda.threadIdx.x
    shmem.p(data[i:], turn * 10 + i, peer)
    shmem.quiet()
    cuda.syncthreads()
    if i == 0:
        shmem.signal_op(flag, turn, shmem.SIGNAL_SET, peer)
        shmem.signal_wait_until(flag, shmem.CMP_GE, turn)
    cuda.syncthreads()
    out[i] += data[i]


with pyshmem.init(device="sim") as job:
    data, out = (pyshmem.zeros(8, np.int64, heap="device") for _ in range(2))
    flag = pyshmem.new_signal(heap="device")
    for turn in range(1, 3):
        push[1, 8](data, flag, out, turn)
        pyshmem.barrier_all()
    print(out)
