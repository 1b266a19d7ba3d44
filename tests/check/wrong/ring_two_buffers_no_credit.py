# SPDX-License-Identifier: BSD-3-Clause
"""A pipelined ring with two buffers, and nobody says that a buffer is free. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    right = (me + 1) % n
    box, full = pyshmem.zeros((2, 4), np.int64), pyshmem.new_signal()
    total = 0
    for k in range(5):
        pyshmem.put_signal(box[k % 2], np.full(4, k), full, 1, pyshmem.SIGNAL_ADD, right)  # <1>
        pyshmem.signal_wait_until(full, pyshmem.CMP_GE, k + 1)
        total += int(box[k % 2].sum())  # <2>
    pyshmem.barrier_all()
