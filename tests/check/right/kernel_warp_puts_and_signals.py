# SPDX-License-Identifier: BSD-3-Clause
"""A warp puts, syncs, and its first thread signals behind its own fence. PEs: 2."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device as shmem


@cuda.jit
def send(data, source, flag, out, peer):
    i = cuda.threadIdx.x
    w = i // 32
    shmem.put_warp(data[4 * w : 4 * w + 4], source[4 * w : 4 * w + 4], peer)
    cuda.syncwarp()
    if i % 32 == 0:
        shmem.fence()
        shmem.signal_add(flag, 1, peer)
    shmem.signal_wait_until_work_group(flag, shmem.CMP_EQ, 2)
    if i < 8:
        out[i] = data[i]


with pyshmem.init(device="sim") as job:
    data, source, out = (pyshmem.zeros(8, np.int64, heap="device") for _ in range(3))
    source[:] = np.arange(8)
    flag = pyshmem.new_signal(heap="device")
    send[1, 64](data, source, flag, out, 1 - job.my_pe)
    pyshmem.barrier_all()
    print(out.sum())
