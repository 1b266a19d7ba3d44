# SPDX-License-Identifier: BSD-3-Clause
"""A bit tells of a put that no fence is behind. PEs: 3."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device as shmem


@cuda.jit
def tell(boxes, bits, me, n):
    for pe in range(n):
        shmem.p(boxes[me:], me + 1, pe)  # <1>
        shmem.atomic_or(bits, 1 << me, pe)
    shmem.wait_until(bits, shmem.CMP_EQ, (1 << n) - 1)
    boxes[n] = boxes[0] + boxes[1] + boxes[2]  # <2>


with pyshmem.init(device="sim") as job:
    me, n = job.my_pe, job.n_pes
    boxes, bits = (
        pyshmem.zeros(4, np.int64, heap="device"),
        pyshmem.zeros(1, np.int64, heap="device"),
    )
    tell[1, 1](boxes, bits, me, n)
    pyshmem.barrier_all()
