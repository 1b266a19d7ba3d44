# SPDX-License-Identifier: BSD-3-Clause
"""A spin lock by compare and swap, released without waiting for the put under it. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    lock, total = pyshmem.zeros(1, np.int64), pyshmem.zeros(4, np.int64)
    mine = np.zeros(4, np.int64)
    for _ in range(2):
        while int(pyshmem.atomic_compare_swap(lock, 0, me + 1, 0)) != 0:
            pass
        pyshmem.get(mine, total, 0)  # <1>
        pyshmem.put(total, mine + 1, 0)  # <2>
        pyshmem.atomic_set(lock, 0, 0)
    pyshmem.barrier_all()
