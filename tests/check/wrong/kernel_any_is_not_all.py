# SPDX-License-Identifier: BSD-3-Clause
"""One of a set of signals has come, and the data of all is read. PEs: 3."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device as shmem


@cuda.jit
def gather(box, sig, out, n):
    me = shmem.my_pe()
    for pe in range(n):
        shmem.put_signal(box[me], box[n], sig[me:], 1, shmem.SIGNAL_SET, pe)  # <1>
    shmem.wait_until_any(sig, n, None, shmem.CMP_EQ, 1)
    for k in range(n):
        out[k] = box[k, 1]  # <2>


with pyshmem.init(device="sim") as job:
    me, n = job.my_pe, job.n_pes
    box = pyshmem.full((n + 1, 2), me, np.int64, heap="device")
    sig, out = pyshmem.new_signal(4, heap="device"), pyshmem.zeros(4, np.int64, heap="device")
    pyshmem.barrier_all()
    gather[1, 1](box, sig, out, n)
    cuda.synchronize()
    pyshmem.barrier_all()
