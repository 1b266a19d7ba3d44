# SPDX-License-Identifier: BSD-3-Clause
"""Workers take tickets of a queue that another PE is still filling. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    jobs, head = pyshmem.zeros(8, np.int64), pyshmem.zeros(1, np.int64)
    if me == 1:
        pyshmem.put(jobs, np.arange(8), 0)  # <1>
        pyshmem.quiet()
    if me == 2:
        k = int(pyshmem.atomic_fetch_add(head, 1, 0))
        print(pyshmem.g(jobs[k:], 0))  # <2>
    pyshmem.barrier_all()
