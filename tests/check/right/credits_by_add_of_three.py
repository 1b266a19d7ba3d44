# SPDX-License-Identifier: BSD-3-Clause
"""A queue of two places for each sender, credits by add, arrivals by add. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    box = pyshmem.zeros((n, 2, 4), np.int64)
    full, free = pyshmem.new_signal(n), pyshmem.new_signal()
    if me > 0:
        for k in range(6):
            if k >= 2:
                pyshmem.signal_wait_until(free, pyshmem.CMP_GE, k - 1)
            pyshmem.fence()
            pyshmem.put_signal(box[me, k % 2], np.full(4, k), full[me:], 1, pyshmem.SIGNAL_ADD, 0)
    else:
        for k in range(6):
            for pe in (1, 2):
                pyshmem.signal_wait_until(full[pe:], pyshmem.CMP_GE, k + 1)
                assert (box[pe, k % 2] == k).all()
                pyshmem.signal_add(free, 1, pe)
    pyshmem.barrier_all()
