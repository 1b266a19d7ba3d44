# SPDX-License-Identifier: BSD-3-Clause
"""Counters a line of a cache apart, one for each PE, that their owner reads in the end. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    counts = pyshmem.zeros((n, 16), np.int64)
    for k in range(4):
        pyshmem.atomic_inc(counts[me], (me + k) % n)
    pyshmem.barrier_all()
    print(counts[:, 0].sum())
    pyshmem.sync_all()
    counts[:] = 0
    pyshmem.barrier_all()
    assert int(pyshmem.g(counts, (me + 1) % n)) == 0
