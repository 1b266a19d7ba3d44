# SPDX-License-Identifier: BSD-3-Clause
"""The value that a wait returns says how many have come. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    boxes, count = pyshmem.zeros(n, np.int64), pyshmem.new_signal()
    if me > 0:
        pyshmem.put_signal(boxes[me:], np.full(1, me), count, 1, pyshmem.SIGNAL_ADD, 0)
    else:
        if pyshmem.signal_wait_until(count, pyshmem.CMP_GE, 1) < 2:
            pyshmem.signal_wait_until(count, pyshmem.CMP_GE, 2)
        assert boxes.sum() == 3
    pyshmem.barrier_all()
