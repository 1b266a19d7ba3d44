# SPDX-License-Identifier: BSD-3-Clause
"""Rounds without credits, each behind a fence, and waits for at least the round. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    boxes, sig = pyshmem.zeros((4, 4), np.int64), pyshmem.new_signal()
    right = (me + 1) % n
    for turn in range(4):
        pyshmem.put_signal(boxes[turn], np.full(4, turn), sig, turn + 1, pyshmem.SIGNAL_SET, right)
        pyshmem.fence()
    for turn in range(4):
        pyshmem.signal_wait_until(sig, pyshmem.CMP_GE, turn + 1)
        assert boxes[turn].sum() == 4 * turn
    pyshmem.barrier_all()
