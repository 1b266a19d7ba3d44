# SPDX-License-Identifier: BSD-3-Clause
"""Collectives one after the other, results used at once. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    mine, total = pyshmem.full(2, me, np.int64), pyshmem.zeros(2, np.int64)
    every = pyshmem.zeros(2 * n, np.int64)
    for _ in range(3):
        pyshmem.sum_reduce(total, mine)
        mine[:] = total
        pyshmem.fcollect(every, mine)
        assert (every == every[0]).all()
        pyshmem.broadcast(mine, total, 0)
    pyshmem.barrier_all()
