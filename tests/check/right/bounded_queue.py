# SPDX-License-Identifier: BSD-3-Clause
"""A bounded queue of many producers and consumers: each slot has a turn. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me = job.my_pe
    SLOTS = 4
    seq = pyshmem.zeros(SLOTS, np.int64)
    items = pyshmem.zeros(SLOTS, np.int64)
    head = pyshmem.zeros(1, np.int64)
    tail = pyshmem.zeros(1, np.int64)
    if me == 0:
        seq[:] = np.arange(SLOTS)
    pyshmem.barrier_all()
    got = []
    for k in range(5):
        t = int(pyshmem.atomic_fetch_inc(tail, 0))
        while pyshmem.atomic_fetch(seq[t % SLOTS :], 0) != t:
            pass
        pyshmem.p(items[t % SLOTS :], 100 * me + k, 0)
        pyshmem.fence()
        pyshmem.atomic_set(seq[t % SLOTS :], t + 1, 0)
        h = int(pyshmem.atomic_fetch_inc(head, 0))
        while pyshmem.atomic_fetch(seq[h % SLOTS :], 0) != h + 1:
            pass
        got.append(int(pyshmem.g(items[h % SLOTS :], 0)))
        pyshmem.atomic_set(seq[h % SLOTS :], h + SLOTS, 0)
    pyshmem.barrier_all()
