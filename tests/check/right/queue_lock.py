# SPDX-License-Identifier: BSD-3-Clause
"""A lock that its waiters hand on: swap, compare and swap, a word of one's own. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    tail = pyshmem.full(1, -1, np.int64)
    nxt = pyshmem.full(1, -1, np.int64)
    locked, total = pyshmem.zeros(1, np.int64), pyshmem.zeros(4, np.int64)
    pyshmem.barrier_all()
    for _ in range(3):
        pyshmem.atomic_set(nxt, -1, me)
        pyshmem.atomic_set(locked, 1, me)
        pyshmem.quiet()
        prev = int(pyshmem.atomic_swap(tail, me, 0))
        if prev >= 0:
            pyshmem.atomic_set(nxt, me, prev)
            pyshmem.wait_until(locked, pyshmem.CMP_EQ, 0)
        mine = np.zeros(4, np.int64)
        pyshmem.get(mine, total, 0)
        pyshmem.put(total, mine + 1, 0)
        pyshmem.quiet()
        if int(pyshmem.atomic_compare_swap(tail, me, -1, 0)) != me:
            pyshmem.wait_until(nxt, pyshmem.CMP_NE, -1)
            pyshmem.atomic_set(locked, 0, int(pyshmem.atomic_fetch(nxt, me)))
    pyshmem.barrier_all()
    assert me or (total == 3 * n).all(), total
