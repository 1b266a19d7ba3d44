# SPDX-License-Identifier: BSD-3-Clause
"""Rows, then columns: a value goes two steps and each has its own sync. PEs: 4."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    data, out = pyshmem.zeros(2, np.int64), pyshmem.zeros(2, np.int64)
    row, col = pyshmem.TEAM_WORLD.split_2d(2)
    data[0] = me
    pyshmem.fence()
    row.sync()
    out[0] = pyshmem.g(data, me ^ 1)
    pyshmem.fence()
    col.sync()
    out[1] = pyshmem.g(out, me ^ 2)
    assert out[1] == me ^ 3
    pyshmem.barrier_all()
    row.destroy()
    col.destroy()
