# SPDX-License-Identifier: BSD-3-Clause
"""Who does not get the lock writes all the same. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    import time

    lock = pyshmem.zeros(1, np.int64)
    record = pyshmem.zeros(1, np.int64)
    if me == 0:
        pyshmem.set_lock(lock)
    pyshmem.barrier_all()
    if me == 0:
        pyshmem.p(record, 1, 0)  # <1>
        time.sleep(0.3)
        pyshmem.quiet()
        pyshmem.clear_lock(lock)
    else:
        mine = pyshmem.test_lock(lock)
        pyshmem.p(record, 2, 0)  # <2>
        pyshmem.quiet()
    pyshmem.barrier_all()
