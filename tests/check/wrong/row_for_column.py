# SPDX-License-Identifier: BSD-3-Clause
"""The row has met, but the data came from the column. PEs: 4."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    rows, columns = pyshmem.TEAM_WORLD.split_2d(2)
    data = pyshmem.zeros(2, np.int64)
    pyshmem.put(data, np.full(2, me), (me + 2) % n)  # <1>
    pyshmem.quiet()
    rows.sync()
    print(data[1])  # <2>
    pyshmem.barrier_all()
