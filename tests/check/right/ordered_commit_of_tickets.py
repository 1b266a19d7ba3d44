# SPDX-License-Identifier: BSD-3-Clause
"""Producers commit in the order of their tickets, so that a count says which slots are full. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    queue, tail, done = (
        pyshmem.zeros(4, np.int64),
        pyshmem.zeros(1, np.int64),
        pyshmem.zeros(1, np.int64),
    )
    if me:
        at = int(pyshmem.atomic_fetch_inc(tail, 0))
        pyshmem.p(queue[at:], 10 + me, 0)
        while int(pyshmem.atomic_fetch(done, 0)) != at:
            pass
        pyshmem.fence()
        pyshmem.atomic_inc(done, 0)
    else:
        for k in range(n - 1):
            pyshmem.wait_until(done, pyshmem.CMP_GE, k + 1)
            assert queue[k] > 10
    pyshmem.barrier_all()
