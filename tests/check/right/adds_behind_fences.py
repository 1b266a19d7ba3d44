# SPDX-License-Identifier: BSD-3-Clause
"""Two adds of one sender with a fence between: the first is there when one is. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    boxes, count = pyshmem.zeros((2, 4), np.int64), pyshmem.new_signal()
    pyshmem.put_signal(boxes[0], np.full(4, 1), count, 1, pyshmem.SIGNAL_ADD, 1 - me)
    pyshmem.fence()
    pyshmem.put_signal(boxes[1], np.full(4, 2), count, 1, pyshmem.SIGNAL_ADD, 1 - me)
    pyshmem.signal_wait_until(count, pyshmem.CMP_GE, 1)
    assert boxes[0].sum() == 4
    pyshmem.signal_wait_until(count, pyshmem.CMP_GE, 2)
    assert boxes[1].sum() == 8
    pyshmem.barrier_all()
