# SPDX-License-Identifier: BSD-3-Clause
"""A barrier by a counter that only grows, several rounds, and fast PEs count twice. PEs: 4."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    count, data = pyshmem.zeros(1, np.int64), pyshmem.zeros(4, np.int64)
    for turn in range(1, 6):
        pyshmem.p(data[me:], turn, (me + 1) % n)
        pyshmem.quiet()
        for pe in range(n):
            pyshmem.atomic_inc(count, pe)
        pyshmem.wait_until(count, pyshmem.CMP_GE, n * (2 * turn - 1))
        assert data[(me - 1) % n] == turn
        for pe in range(n):
            pyshmem.atomic_inc(count, pe)
        pyshmem.wait_until(count, pyshmem.CMP_GE, 2 * n * turn)
    pyshmem.barrier_all()
