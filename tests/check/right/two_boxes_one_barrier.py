# SPDX-License-Identifier: BSD-3-Clause
"""Two boxes by turns need one barrier a step. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    box = pyshmem.zeros((2, 4), np.int64)
    for step in range(5):
        pyshmem.put(box[step % 2], np.full(4, 10 * step + me), (me + 1) % n)
        pyshmem.barrier_all()
        assert box[step % 2, 1] == 10 * step + (me - 1) % n
