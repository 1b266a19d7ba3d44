# SPDX-License-Identifier: BSD-3-Clause
"""The source of put_nbi is the dest of a reduction before quiet. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    data, row = pyshmem.zeros(4, np.int64), pyshmem.ones(4, np.int64)
    one = pyshmem.ones(4, np.int64)
    pyshmem.put_nbi(data, row, 1 - me)  # <1>
    pyshmem.sum_reduce(row, one)  # <2>
    pyshmem.barrier_all()
