# SPDX-License-Identifier: BSD-3-Clause
"""A row of a peer is stored through ``ptr``, loaded, changed and stored again. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    grid = pyshmem.zeros((n, 8))
    for pe in range(n):
        there = pyshmem.ptr(grid, pe)
        there[me] = np.arange(8)
        there[me] += me
        np.multiply(there[me], 2, out=there[me])
    pyshmem.barrier_all()
    assert grid.sum() == 2 * (28 * n + 8 * sum(range(n)))
