# SPDX-License-Identifier: BSD-3-Clause
"""Who has left the alltoall first puts where another one reads its result. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    dest, source = pyshmem.zeros(n, np.int64), pyshmem.full(n, me, np.int64)
    pyshmem.barrier_all()
    pyshmem.alltoall(dest, source)
    print(dest.sum())  # <1>
    pyshmem.p(dest[me:], 9, (me + 1) % n)  # <2>
    pyshmem.barrier_all()
