# SPDX-License-Identifier: BSD-3-Clause
"""Two buffers by turns need one sync a step. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    row, out = pyshmem.zeros((2, 4), np.int64), np.zeros(4, np.int64)
    for step in range(5):
        row[step % 2] = 10 * step + me
        pyshmem.sync_all()
        pyshmem.get(out, row[step % 2], (me + 1) % n)
        assert out[1] == 10 * step + (me + 1) % n
