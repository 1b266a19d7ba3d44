# SPDX-License-Identifier: BSD-3-Clause
"""Freed memory is another array's. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    right = (me + 1) % n
    for turn in range(3):
        data = pyshmem.zeros(8, np.int64)
        pyshmem.put(data, np.full(8, turn), right)
        pyshmem.barrier_all()
        assert data[0] == turn
        pyshmem.free(data)
