# SPDX-License-Identifier: BSD-3-Clause
"""Workers take jobs by fetch_add, and put results to places of their own. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    jobs, done = pyshmem.zeros(12, np.int64), pyshmem.zeros(12, np.int64)
    head, finished = pyshmem.zeros(1, np.int64), pyshmem.zeros(1, np.int64)
    if me == 0:
        jobs[:] = np.arange(12)
    pyshmem.sync_all()
    while (k := int(pyshmem.atomic_fetch_add(head, 1, 0))) < 12:
        pyshmem.p(done[k:], int(pyshmem.g(jobs[k:], 0)) ** 2, 0)
    pyshmem.quiet()
    pyshmem.atomic_inc(finished, 0)
    if me == 0:
        pyshmem.wait_until(finished, pyshmem.CMP_EQ, n)
        print(done.sum())
    pyshmem.barrier_all()
