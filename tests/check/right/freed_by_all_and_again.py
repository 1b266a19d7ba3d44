# SPDX-License-Identifier: BSD-3-Clause
"""free is a barrier: the same memory is another array's then. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    for turn in range(4):
        data = pyshmem.zeros(8, np.int64)
        pyshmem.put(data, np.full(8, turn), (me + 1) % n)
        pyshmem.barrier_all()
        print(data.sum())
        pyshmem.free(data)
        other = pyshmem.zeros((2, 4), np.float64)
        other[1] = turn
        pyshmem.barrier_all()
        pyshmem.free(other)
