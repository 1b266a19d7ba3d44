# SPDX-License-Identifier: BSD-3-Clause
"""Two arrivals may both be of the sender that is in its second round. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    boxes, count = pyshmem.zeros((2, 4), np.int64), pyshmem.new_signal()
    if me > 0:
        for turn in range(2):
            pyshmem.fence()
            box = boxes[me - 1]
            pyshmem.put_signal(box, np.full(4, turn), count, 1, pyshmem.SIGNAL_ADD, 0)  # <1>
    else:
        pyshmem.signal_wait_until(count, pyshmem.CMP_GE, 2)
        print(boxes.sum())  # <2>
    pyshmem.barrier_all()
