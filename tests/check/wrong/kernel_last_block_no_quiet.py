# SPDX-License-Identifier: BSD-3-Clause
"""The last block tells of the puts of all, and none had its quiet. PEs: 2."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device as shmem


@cuda.jit
def blocks(out, src, count, sig, peer):
    b, i = cuda.blockIdx.x, cuda.threadIdx.x
    shmem.put_work_group(out[4 * b : 4 * b + 4], src[4 * b : 4 * b + 4], peer)  # <1>
    if i == 0 and shmem.atomic_fetch_inc(count, shmem.my_pe()) == cuda.gridDim.x - 1:
        shmem.signal_set(sig, 1, peer)


@cuda.jit
def use(out, sig):
    i = cuda.threadIdx.x
    shmem.signal_wait_until_work_group(sig, shmem.CMP_EQ, 1)
    out[i] += 1  # <2>


with pyshmem.init(device="sim") as job:
    me = job.my_pe
    peer = 1 - me
    out, src = (pyshmem.zeros(16, np.int64, heap="device") for _ in range(2))
    count, sig = pyshmem.zeros(1, np.int64, heap="device"), pyshmem.new_signal(heap="device")
    blocks[4, 4](out, src, count, sig, peer)
    use[1, 16](out, sig)
    cuda.synchronize()
    pyshmem.barrier_all()
