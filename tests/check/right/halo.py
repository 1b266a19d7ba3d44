# SPDX-License-Identifier: BSD-3-Clause
"""Rows and ghosts, two buffers in turn, one barrier a step. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    left, right = (me - 1) % n, (me + 1) % n
    grids = [pyshmem.zeros(10, np.float64) for _ in range(2)]
    grids[0][1:-1] = me
    for step in range(4):
        old, new = grids[step % 2], grids[(step + 1) % 2]
        pyshmem.p(old[9:], float(old[1]), left)
        pyshmem.p(old, float(old[8]), right)
        pyshmem.barrier_all()
        new[1:-1] = 0.5 * (old[:-2] + old[2:])
        pyshmem.barrier_all()
