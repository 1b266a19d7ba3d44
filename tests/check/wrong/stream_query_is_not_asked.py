# SPDX-License-Identifier: BSD-3-Clause
"""query says no, and the result is read all the same. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="sim") as job:
    me, n = job.my_pe, job.n_pes
    data, total = (pyshmem.ones(4, np.int64, heap="device") for _ in range(2))
    s = pyshmem.streams.Stream()
    pyshmem.sum_reduce(total, data, stream=s)  # <1>
    if not s.query():
        print(total[0])  # <2>
    s.synchronize()
    pyshmem.barrier_all()
