# SPDX-License-Identifier: BSD-3-Clause
"""Waits for any of a vector of values, and reads the row of another. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    rows = pyshmem.zeros((n, 4), np.int64)
    flags = pyshmem.zeros(n, np.uint64)
    for pe in range(n):
        if pe != me:
            pyshmem.put_signal(  # <1>
                rows[me], np.full(4, me), flags[me:], me + 1, pyshmem.SIGNAL_SET, pe
            )
    status = np.zeros(n, np.int32)
    status[me] = 1
    found = pyshmem.wait_until_any_vector(
        flags, pyshmem.CMP_EQ, np.arange(1, n + 1, dtype=np.uint64), status=status
    )
    other = next(pe for pe in range(n) if pe not in (me, found))
    print(rows[other].sum())  # <2>
    pyshmem.barrier_all()
