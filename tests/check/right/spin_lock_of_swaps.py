# SPDX-License-Identifier: BSD-3-Clause
"""A spin lock by test and swap, with a plain look at it before. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    lock, total = pyshmem.zeros(1, np.int64), pyshmem.zeros(4, np.int64)
    mine = np.zeros(4, np.int64)
    for _ in range(3):
        while True:
            if int(pyshmem.atomic_fetch(lock, 1)) == 0 and not int(pyshmem.atomic_swap(lock, 1, 1)):
                break
        pyshmem.get(mine, total, 2)
        pyshmem.put(total, mine + 1, 2)
        pyshmem.quiet()
        pyshmem.atomic_set(lock, 0, 1)
    pyshmem.barrier_all()
    print(total[0] if me == 2 else 0)
