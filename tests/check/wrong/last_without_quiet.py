# SPDX-License-Identifier: BSD-3-Clause
"""The last to arrive reads what was put without a quiet before the count. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    parts, count = pyshmem.zeros(n, np.int64), pyshmem.zeros(1, np.int64)
    for pe in range(n):
        pyshmem.p(parts[me:], me + 1, pe)  # <1>
    if pyshmem.atomic_fetch_inc(count, 0) == n - 1:
        print(parts.sum())  # <2>
    pyshmem.barrier_all()
