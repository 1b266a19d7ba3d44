# SPDX-License-Identifier: BSD-3-Clause
"""Threads of all PEs claim slots of PE 0; the host reads behind a barrier. PEs: 3."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device as shmem


@cuda.jit
def claim(slots, tail, me):
    k = shmem.atomic_fetch_inc(tail, 0)
    shmem.p(slots[k:], 100 * me + cuda.threadIdx.x + 1, 0)


with pyshmem.init(device="sim") as job:
    me, n = job.my_pe, job.n_pes
    slots, tail = (
        pyshmem.zeros(64, np.int64, heap="device"),
        pyshmem.zeros(1, np.int64, heap="device"),
    )
    claim[2, 4](slots, tail, me)
    cuda.synchronize()
    pyshmem.barrier_all()
    if me == 0:
        assert (np.array(slots[: 8 * n]) > 0).all()
