# SPDX-License-Identifier: BSD-3-Clause
"""What a group gets without quiet is read behind syncthreads. PEs: 2."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device as shmem


@cuda.jit
def fetch(here, data, out, peer):
    i = cuda.threadIdx.x
    shmem.get_nbi_work_group(here, data, peer)  # <1>
    cuda.syncthreads()
    out[i] = here[i]  # <2>
    shmem.quiet_work_group()


with pyshmem.init(device="sim") as job:
    me, n = job.my_pe, job.n_pes
    here, data, out = (pyshmem.zeros(4, np.int64, heap="device") for _ in range(3))
    fetch[1, 4](here, data, out, 1 - me)
    pyshmem.barrier_all()
