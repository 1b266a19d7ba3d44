# SPDX-License-Identifier: BSD-3-Clause
"""In a kernel: the source of a put_nbi is filled again without a quiet. PEs: 2."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device as shmem


@cuda.jit
def rounds(data, other):
    for k in range(2):
        data[4] = k + 1
        shmem.put_nbi(data[k : k + 1], data[4:5], other)


with pyshmem.init(device="sim") as job:
    data = pyshmem.zeros(8, np.int64, heap="device")
    rounds[1, 1](data, 1 - job.my_pe)
    pyshmem.barrier_all()
    print(*pyshmem.to_numpy(data)[:2])
