# SPDX-License-Identifier: BSD-3-Clause
"""Waits for any of a vector of values, and reads that row, until all are there. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    rows, flags = pyshmem.zeros((n, 4), np.int64), pyshmem.zeros(n, np.uint64)
    for pe in range(n):
        if pe != me:
            pyshmem.put_signal(rows[me], np.full(4, me), flags[me:], me + 1, pyshmem.SIGNAL_SET, pe)
    status = np.zeros(n, np.int32)
    status[me] = 1
    values = np.arange(1, n + 1, dtype=np.uint64)
    for _ in range(n - 1):
        k = pyshmem.wait_until_any_vector(flags, pyshmem.CMP_EQ, values, status=status)
        status[k] = 1
        print(rows[k].sum())
    pyshmem.barrier_all()
