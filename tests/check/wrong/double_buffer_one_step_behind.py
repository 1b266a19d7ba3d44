# SPDX-License-Identifier: BSD-3-Clause
"""A buffer is filled again with a credit that tells of the step before its own. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    box, full, free = pyshmem.zeros((2, 4), np.int64), pyshmem.new_signal(2), pyshmem.new_signal()
    for k in range(6):
        b = k % 2
        if me == 0:
            if k >= 3:
                pyshmem.signal_wait_until(free, pyshmem.CMP_GE, k - 2)
            pyshmem.put_signal(box[b], np.full(4, k), full[b:], 1, pyshmem.SIGNAL_ADD, 1)  # <1>
        else:
            pyshmem.signal_wait_until(full[b:], pyshmem.CMP_GE, k // 2 + 1)
            print(box[b].sum())  # <2>
            pyshmem.signal_set(free, k + 1, 0)
    pyshmem.barrier_all()
