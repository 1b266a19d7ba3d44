# SPDX-License-Identifier: BSD-3-Clause
"""An exclusive scan tells PE 0 of nobody. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me = job.my_pe
    count = pyshmem.full(1, me + 1, np.int64)
    at, out = pyshmem.zeros(1, np.int64), pyshmem.zeros(16, np.int64)
    pyshmem.put(out[me:], np.full(1, me), 0)  # <1>
    pyshmem.quiet()
    pyshmem.sum_exscan(at, count)
    if me == 0:
        print(out[:3])  # <2>
    pyshmem.barrier_all()
