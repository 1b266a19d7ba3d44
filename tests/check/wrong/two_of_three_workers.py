# SPDX-License-Identifier: BSD-3-Clause
"""Of three workers two have come, and the results of two are read. PEs: 4."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    parts, count = pyshmem.zeros((4, 2), np.int64), pyshmem.zeros(1, np.int64)
    if me:
        pyshmem.put(parts[me], np.full(2, me), 0)  # <1>
        pyshmem.fence()
        pyshmem.atomic_inc(count, 0)
    else:
        pyshmem.wait_until(count, pyshmem.CMP_GE, 2)
        print(parts[1:3].sum())  # <2>
    pyshmem.barrier_all()
