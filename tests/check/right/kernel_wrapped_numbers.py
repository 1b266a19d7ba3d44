# SPDX-License-Identifier: BSD-3-Clause
"""Numbers that a kernel wraps arrive wrapped. PEs: 2."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device as shmem


@cuda.jit
def send(small, wide, sums, other):
    shmem.p(small, 300, other)
    shmem.p(small[1:], 2.7, other)
    shmem.p(wide, -1, other)
    shmem.atomic_add(sums, 0.5, other)


with pyshmem.init(device="sim") as job:
    small, wide = (
        pyshmem.zeros(2, np.int8, heap="device"),
        pyshmem.zeros(2, np.uint16, heap="device"),
    )
    sums = pyshmem.zeros(1, np.float32, heap="device")
    send[1, 1](small, wide, sums, 1 - job.my_pe)
    pyshmem.barrier_all()
    print(*(pyshmem.to_numpy(one) for one in (small, wide, sums)))
    assert pyshmem.to_numpy(small).tolist() == [44, 2]
    assert pyshmem.to_numpy(wide).tolist() == [65535, 0]
