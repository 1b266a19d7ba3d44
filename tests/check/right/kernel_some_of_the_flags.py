# SPDX-License-Identifier: BSD-3-Clause
"""Each thread of one reads the boxes that wait_until_some has named. PEs: 3."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device as shmem


@cuda.jit
def gather(boxes, flags, found, status, out, me, n):
    for pe in range(n):
        shmem.p(boxes[me:], me + 1, pe)
        shmem.fence()
        shmem.signal_set(flags[me:], 1, pe)
    done = 0
    while done < n:
        m = shmem.wait_until_some(flags, n, found, status, shmem.CMP_EQ, 1)
        for k in range(m):
            out[found[k]] = boxes[found[k]]
            status[found[k]] = 1
        done += m


with pyshmem.init(device="sim") as job:
    me, n = job.my_pe, job.n_pes
    boxes, found, out = (pyshmem.zeros(n, np.int64, heap="device") for _ in range(3))
    status = pyshmem.zeros(n, np.int32, heap="device")
    flags = pyshmem.new_signal(n, heap="device")
    gather[1, 1](boxes, flags, found, status, out, me, n)
    cuda.synchronize()
    assert out[2] == 3
    pyshmem.barrier_all()
