# SPDX-License-Identifier: BSD-3-Clause
"""In a kernel: a flag by p without a fence, seen by a loop of tests. PEs: 2."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device as shmem


@cuda.jit
def exchange(data, flag, out, other):
    for k in range(4):
        shmem.p(data[k:], k + 1, other)
    shmem.p(flag, 1, other)
    while not shmem.test(flag, shmem.CMP_EQ, 1):
        pass
    out[0] = data[0] + data[1] + data[2] + data[3]


with pyshmem.init(device="sim") as job:
    data = pyshmem.zeros(4, np.int64, heap="device")
    flag, out = pyshmem.zeros(1, np.int64, heap="device"), pyshmem.zeros(1, np.int64, heap="device")
    exchange[1, 1](data, flag, out, 1 - job.my_pe)
    cuda.synchronize()
    print(pyshmem.to_numpy(out)[0])
