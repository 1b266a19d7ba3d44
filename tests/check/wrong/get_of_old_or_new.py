# SPDX-License-Identifier: BSD-3-Clause
"""A PE stores to what its neighbour gets, with nothing between them. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    mine, got = pyshmem.full(4, me, np.int64), np.zeros(4, np.int64)
    pyshmem.barrier_all()
    pyshmem.get(got, mine, 1 - me)  # <1>
    mine += 1  # <2>
    pyshmem.barrier_all()
