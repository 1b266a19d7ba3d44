# SPDX-License-Identifier: BSD-3-Clause
"""A warp for each PE, its own too: to itself a part is put where it is. PEs: 2."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device as shmem


@cuda.jit
def gather(a, flags, out):
    warp, lane = cuda.threadIdx.x // 32, cuda.threadIdx.x % 32
    me = shmem.my_pe()
    mine = a[me * 32 : me * 32 + 32]
    shmem.put_signal_warp(mine, mine, flags[me:], 1, shmem.SIGNAL_SET, warp)
    shmem.signal_wait_until_warp(flags[warp:], shmem.CMP_EQ, 1)
    out[cuda.threadIdx.x] = a[warp * 32 + 31 - lane]


with pyshmem.init(device="sim") as job:
    a = pyshmem.full(64, job.my_pe, np.int64, heap="device")
    out = pyshmem.zeros(64, np.int64, heap="device")
    flags = pyshmem.zeros(2, np.uint64, heap="device")
    gather[1, 64](a, flags, out)
    cuda.synchronize()
    print(out.sum())
    pyshmem.barrier_all()
