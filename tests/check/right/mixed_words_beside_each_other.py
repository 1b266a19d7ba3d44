# SPDX-License-Identifier: BSD-3-Clause
"""Atomics of 32 bits beside those of 64, each word by its own. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    n = job.n_pes
    small, large = pyshmem.zeros(4, np.int32), pyshmem.zeros(4, np.int64)
    for pe in range(n):
        pyshmem.atomic_add(small[1:], 2, pe)
        pyshmem.atomic_inc(small[2:], pe)
        pyshmem.atomic_fetch_add(large[1:], 3, pe)
        pyshmem.atomic_or(large[2:].view(np.uint64), 1 << pe, pe)
    pyshmem.wait_until(small[1:], pyshmem.CMP_EQ, 2 * n)
    pyshmem.wait_until(large[1:], pyshmem.CMP_EQ, 3 * n)
    print(small[1], large[1])
    pyshmem.barrier_all()
