# SPDX-License-Identifier: BSD-3-Clause
"""A get from the same PE says nothing of the put before it. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    data, other = pyshmem.zeros(4, np.int64), pyshmem.zeros(4, np.int64)
    pyshmem.put(data, np.arange(4), 1 - me)  # <1>
    pyshmem.get(np.zeros(4, np.int64), other, 1 - me)
    pyshmem.sync_all()
    print(data[3])  # <2>
    pyshmem.barrier_all()
