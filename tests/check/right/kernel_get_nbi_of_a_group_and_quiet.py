# SPDX-License-Identifier: BSD-3-Clause
"""A group gets rows with strides and without, and reads behind its quiet. PEs: 2."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device as shmem


@cuda.jit
def fetch(here, data, out, peer):
    i = cuda.threadIdx.x
    shmem.get_nbi_work_group(here[:4], data[:4], peer)
    shmem.quiet_work_group()
    shmem.iget_work_group(here[4:], data, 1, 2, 4, peer)
    cuda.syncthreads()
    out[i] = here[i] + here[4 + i]


with pyshmem.init(device="sim") as job:
    me, n = job.my_pe, job.n_pes
    here, data, out = (pyshmem.ones(8, np.int64, heap="device") for _ in range(3))
    pyshmem.barrier_all()
    fetch[1, 4](here, data, out, 1 - me)
    cuda.synchronize()
    assert out[0] == 2
    pyshmem.barrier_all()
