# SPDX-License-Identifier: BSD-3-Clause
"""A word that every PE changes under a lock. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    total = pyshmem.zeros(1, np.int64)
    lock = pyshmem.Lock()
    for _ in range(3):
        with lock:
            pyshmem.p(total, pyshmem.g(total, 0) + 1, 0)
    pyshmem.barrier_all()
    assert me or total[0] == 3 * n
    pyshmem.barrier_all()
