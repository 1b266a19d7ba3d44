# SPDX-License-Identifier: BSD-3-Clause
"""Each PE takes a lock of its own for one counter. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    locks, total = pyshmem.zeros(2, np.int64), pyshmem.zeros(1, np.int64)
    pyshmem.set_lock(locks[me:])
    old = pyshmem.g(total, 0)  # <1>
    pyshmem.p(total, old + 1, 0)  # <2>
    pyshmem.clear_lock(locks[me:])
    pyshmem.barrier_all()
