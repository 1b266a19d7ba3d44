# SPDX-License-Identifier: BSD-3-Clause
"""The record's second word is put when the lock is free again. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    lock = pyshmem.zeros(1, np.int64)
    record = pyshmem.zeros(2, np.int64)
    for _ in range(2):
        pyshmem.set_lock(lock)
        a = int(pyshmem.g(record, 0))
        b = int(pyshmem.g(record[1:], 0))  # <2>
        pyshmem.p(record, a + 1, 0)
        pyshmem.quiet()
        pyshmem.clear_lock(lock)
        pyshmem.p(record[1:], b + 1, 0)  # <1>
        pyshmem.quiet()
    pyshmem.barrier_all()
