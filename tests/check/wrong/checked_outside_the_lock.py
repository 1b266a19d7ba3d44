# SPDX-License-Identifier: BSD-3-Clause
"""Whether the record is ready is read before the lock is taken. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    lock, ready, record = (pyshmem.zeros(1, np.int64) for _ in range(3))
    if pyshmem.g(ready, 0) == 0:  # <1>
        pyshmem.set_lock(lock)
        if pyshmem.g(ready, 0) == 0:
            pyshmem.p(record, 5, 0)
            pyshmem.quiet()
            pyshmem.p(ready, 1, 0)  # <2>
        pyshmem.clear_lock(lock)
    pyshmem.barrier_all()
