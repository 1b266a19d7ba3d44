# SPDX-License-Identifier: BSD-3-Clause
"""A lock that the program makes of compare_swap and set. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    lock, total = pyshmem.zeros(1, np.int64), pyshmem.zeros(2, np.int64)
    mine = np.zeros(2, np.int64)
    for _ in range(4):
        while pyshmem.atomic_compare_swap(lock, 0, me + 1, 0) != 0:
            pass
        pyshmem.get(mine, total, 0)
        mine += 1
        pyshmem.put(total, mine, 0)
        pyshmem.quiet()
        pyshmem.atomic_set(lock, 0, 0)
    pyshmem.barrier_all()
    assert me or total.tolist() == [4 * n, 4 * n]
    pyshmem.barrier_all()
