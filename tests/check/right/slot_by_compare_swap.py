# SPDX-License-Identifier: BSD-3-Clause
"""A slot is claimed by compare_swap, filled, and published by a word of its own. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    slots, owner, ready = (pyshmem.zeros(8, np.int64) for _ in range(3))
    if me > 0:
        for k in range(8):
            if pyshmem.atomic_compare_swap(owner[k:], 0, me, 0) == 0:
                pyshmem.p(slots[k:], 10 * me + k, 0)
                pyshmem.quiet()
                pyshmem.atomic_set(ready[k:], me, 0)
    else:
        seen = np.zeros(8, np.intc)
        while not seen.all():
            for k in pyshmem.test_some(ready, pyshmem.CMP_GT, 0, status=seen):
                assert slots[k] % 10 == k
                seen[k] = 1
    pyshmem.barrier_all()
