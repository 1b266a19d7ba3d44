# SPDX-License-Identifier: BSD-3-Clause
"""A lock of atomics is given back before the put under it is complete. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    lock, total = pyshmem.zeros(1, np.int64), pyshmem.zeros(2, np.int64)
    mine = np.zeros(2, np.int64)
    for _ in range(2):
        while pyshmem.atomic_compare_swap(lock, 0, me + 1, 1) != 0:
            pass
        pyshmem.get(mine, total, 0)  # <1>
        mine += 1
        pyshmem.put(total, mine, 0)  # <2>
        pyshmem.atomic_set(lock, 0, 1)
    pyshmem.barrier_all()
