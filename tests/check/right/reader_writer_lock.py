# SPDX-License-Identifier: BSD-3-Clause
"""A spin lock by compare_swap on PE 0 around a record of several words. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    mutex = pyshmem.zeros(1, np.int64)
    record = pyshmem.zeros(4, np.int64)
    for _ in range(5):
        while pyshmem.atomic_compare_swap(mutex, 0, job.my_pe + 1, 0) != 0:
            pass
        mine = np.zeros(4, np.int64)
        pyshmem.get(mine, record, 0)
        assert len(set(mine.tolist())) == 1
        pyshmem.put(record, mine + 1, 0)
        pyshmem.quiet()
        assert pyshmem.atomic_swap(mutex, 0, 0) == job.my_pe + 1
    pyshmem.barrier_all()
    if job.my_pe == 0:
        print(record)
