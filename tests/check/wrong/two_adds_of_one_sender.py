# SPDX-License-Identifier: BSD-3-Clause
"""Two put_signals add to one counter; one has come, and the first data are read. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    boxes, count = pyshmem.zeros((2, 4), np.int64), pyshmem.new_signal()
    if me == 0:
        pyshmem.put_signal(boxes[0], np.full(4, 1), count, 1, pyshmem.SIGNAL_ADD, 1)  # <1>
        pyshmem.put_signal(boxes[1], np.full(4, 2), count, 1, pyshmem.SIGNAL_ADD, 1)
    else:
        pyshmem.signal_wait_until(count, pyshmem.CMP_GE, 1)
        print(boxes[0].sum())  # <2>
        pyshmem.signal_wait_until(count, pyshmem.CMP_GE, 2)
    pyshmem.barrier_all()
