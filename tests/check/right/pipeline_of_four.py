# SPDX-License-Identifier: BSD-3-Clause
"""A pipeline: each PE hands on what it got, changed, with one signal a hop. PEs: 4."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    box = pyshmem.zeros((3, 8), np.int64)
    sig = pyshmem.zeros(3, np.uint64)
    for k in range(3):
        if me > 0:
            pyshmem.signal_wait_until(sig[k:], pyshmem.CMP_NE, 0)
        work = np.asarray(box[k]) + 1
        if me < n - 1:
            pyshmem.put_signal(box[k], work, sig[k:], 1, pyshmem.SIGNAL_ADD, me + 1)
    pyshmem.barrier_all()
    if me == n - 1:
        print(box)
