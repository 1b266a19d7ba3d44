# SPDX-License-Identifier: BSD-3-Clause
"""One buffer and one sync a step: the next step writes what is still got. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    row, out = pyshmem.zeros(4, np.int64), np.zeros(4, np.int64)
    for step in range(3):
        row[:] = 10 * step + me  # <1>
        pyshmem.sync_all()
        pyshmem.get(out, row, (me + 1) % n)  # <2>
    pyshmem.barrier_all()
