# SPDX-License-Identifier: BSD-3-Clause
"""Counters are reset by one put, and a later add may pass the one that is waited for. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    boxes, sig = pyshmem.zeros((4, 4), np.int64), pyshmem.new_signal(2)
    pyshmem.signal_add(sig[1:], 4, me)
    pyshmem.barrier_all()
    pyshmem.put(sig, np.zeros(2, np.uint64), me)
    pyshmem.barrier_all()
    for turn in range(4):
        row, one = np.full(4, turn), pyshmem.SIGNAL_ADD
        pyshmem.put_signal(boxes[turn], row, sig[1:], 1, one, 1 - me)  # <1>
    for turn in range(4):
        pyshmem.signal_wait_until(sig[1:], pyshmem.CMP_GE, turn + 1)
        print(boxes[turn].sum())  # <2>
    pyshmem.barrier_all()
