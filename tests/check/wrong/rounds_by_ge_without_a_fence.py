# SPDX-License-Identifier: BSD-3-Clause
"""put_signal sets the round, the next may pass it, and the wait is for at least that. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    boxes, sig = pyshmem.zeros((4, 4), np.int64), pyshmem.new_signal()
    for turn in range(4):
        row, one = np.full(4, turn), pyshmem.SIGNAL_SET
        pyshmem.put_signal(boxes[turn], row, sig, turn + 1, one, 1 - me)  # <1>
    for turn in range(4):
        pyshmem.signal_wait_until(sig, pyshmem.CMP_GE, turn + 1)
        print(boxes[turn].sum())  # <2>
    pyshmem.barrier_all()
