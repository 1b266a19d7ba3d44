# SPDX-License-Identifier: BSD-3-Clause
"""In a kernel: a flag without a fence may overtake its data. PEs: 2."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device as shmem


@cuda.jit
def exchange(data, flag, out, other):
    shmem.put(data[:4], data[4:], other)
    shmem.signal_set(flag, 1, other)
    shmem.signal_wait_until(flag, shmem.CMP_EQ, 1)
    for k in range(4):
        out[k] = data[k]


with pyshmem.init(device="sim") as job:
    data = pyshmem.full(8, 1 + job.my_pe, np.int64, heap="device")
    out = pyshmem.zeros(4, np.int64, heap="device")
    flag = pyshmem.new_signal(heap="device")
    exchange[1, 1](data, flag, out, 1 - job.my_pe)
    cuda.synchronize()
    print(pyshmem.to_numpy(out).sum())
