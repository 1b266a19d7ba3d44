# SPDX-License-Identifier: BSD-3-Clause
"""A slot of a queue has its turn before its item is there. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me = job.my_pe
    SLOTS = 4
    seq = pyshmem.zeros(SLOTS, np.int64)
    items = pyshmem.zeros(SLOTS, np.int64)
    tail = pyshmem.zeros(1, np.int64)
    if me == 0:
        for h in range(6):
            while pyshmem.atomic_fetch(seq[h % SLOTS :], 0) != h + 1:
                pass
            print(items[h % SLOTS])  # <1>
            pyshmem.atomic_set(seq[h % SLOTS :], -h - SLOTS, 0)
    else:
        for k in range(3):
            t = int(pyshmem.atomic_fetch_inc(tail, 0))
            want = 0 if t < SLOTS else -t
            while pyshmem.atomic_fetch(seq[t % SLOTS :], 0) != want:
                pass
            pyshmem.p(items[t % SLOTS :], 100 * me + k, 0)  # <2>
            pyshmem.atomic_set(seq[t % SLOTS :], t + 1, 0)
    pyshmem.barrier_all()
