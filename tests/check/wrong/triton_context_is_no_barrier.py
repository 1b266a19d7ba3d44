# SPDX-License-Identifier: BSD-3-Clause
"""What a context of kernels has of its own is allocated with its first use: no barrier. PEs: 2."""

import numpy as np
import triton

import pyshmem
import pyshmem.triton as shmem


@triton.jit
def nothing(ctx):
    pass


with pyshmem.init(device="sim") as job:
    x = pyshmem.zeros(8, np.int64)
    pyshmem.put(x, np.arange(8), 1 - job.my_pe)  # <1>
    nothing[(1,)](shmem.context())
    print(x.sum())  # <2>
    pyshmem.barrier_all()
