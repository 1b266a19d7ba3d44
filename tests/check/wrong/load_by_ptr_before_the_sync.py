# SPDX-License-Identifier: BSD-3-Clause
"""The neighbour's memory is loaded through ptr while its owner fills it. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    data = pyshmem.zeros(8, np.int64)
    there = pyshmem.ptr(data, 1 - me)
    data[2:6] = me + 1  # <1>
    print(there[3])  # <2>
    pyshmem.barrier_all()
