# SPDX-License-Identifier: BSD-3-Clause
"""A counter that is counted down to zero, and a wait for less than one. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    left, rows = pyshmem.full(1, n - 1, np.int64), pyshmem.zeros((n, 3), np.int64)
    pyshmem.barrier_all()
    for pe in range(n):
        if pe != me:
            pyshmem.put(rows[me], np.full(3, me), pe)
            pyshmem.fence()
            pyshmem.atomic_add(left, -1, pe)
    pyshmem.wait_until(left, pyshmem.CMP_LT, 1)
    print(rows.sum())
    pyshmem.barrier_all()
