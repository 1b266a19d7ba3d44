# SPDX-License-Identifier: BSD-3-Clause
"""A fetching atomic has its answer, and the put before it none. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    data, count = pyshmem.zeros(4, np.int64), pyshmem.zeros(1, np.int64)
    pyshmem.put(data, np.arange(4), 1 - me)  # <1>
    pyshmem.atomic_fetch_add(count, 1, 1 - me)
    pyshmem.sync_all()
    print(data[3])  # <2>
    pyshmem.barrier_all()
