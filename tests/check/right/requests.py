# SPDX-License-Identifier: BSD-3-Clause
"""Collectives that are begun, and waited for before the results are used. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    right = (me + 1) % n
    total, mine = pyshmem.zeros(2, np.int64), pyshmem.full(2, me, np.int64)
    pyshmem.barrier_all()
    request = pyshmem.sum_reduce_nb(total, mine)
    request.wait()
    assert total[0] == n * (n - 1) // 2
    pyshmem.barrier_nb().wait()
    pyshmem.p(total, 0, right)
    pyshmem.barrier_all()
