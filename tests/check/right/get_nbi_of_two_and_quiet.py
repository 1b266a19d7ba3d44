# SPDX-License-Identifier: BSD-3-Clause
"""Two gets of one round, one quiet, and sums that wait for it. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, other = job.my_pe, 1 - job.my_pe
    data = pyshmem.full(8, me + 1, np.int64)
    pyshmem.barrier_all()
    left, right = np.zeros(4, np.int64), np.zeros(4, np.int64)
    pyshmem.get_nbi(left, data[:4], other)
    pyshmem.get_nbi(right, data[4:], other)
    pyshmem.quiet()
    print(left.sum() + right.sum())
