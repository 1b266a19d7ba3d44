# SPDX-License-Identifier: BSD-3-Clause
"""threadfence and Numba's atomic counter: the last block sums what all have stored. PEs: 2."""

import numpy as np
from numba import cuda

import pyshmem


@cuda.jit
def blocks(part, total, count):
    b, i = cuda.blockIdx.x, cuda.threadIdx.x
    tmp = cuda.shared.array(4, np.int64)
    last = cuda.shared.array(1, np.int64)
    tmp[i] = 4 * b + i
    cuda.syncthreads()
    if i == 0:
        part[b] = tmp[0] + tmp[1] + tmp[2] + tmp[3]
        cuda.threadfence()
        last[0] = cuda.atomic.add(count, 0, 1)
    cuda.syncthreads()
    if last[0] == cuda.gridDim.x - 1 and i == 0:
        for k in range(cuda.gridDim.x):
            total[0] += part[k]


with pyshmem.init(device="sim") as job:
    part, total, count = (pyshmem.zeros(4, np.int64, heap="device") for _ in range(3))
    blocks[4, 4](part, total, count)
    cuda.synchronize()
    assert pyshmem.to_numpy(total)[0] == 120
    pyshmem.sum_reduce(part, total)
