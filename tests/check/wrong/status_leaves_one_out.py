# SPDX-License-Identifier: BSD-3-Clause
"""A flag that the status leaves out is not waited for. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    boxes, flags = pyshmem.zeros(n, np.int64), pyshmem.new_signal(n)
    for pe in range(n):
        pyshmem.put_signal(boxes[me:], np.full(1, me), flags[me:], 1, pyshmem.SIGNAL_SET, pe)  # <1>
    status = np.zeros(n, np.intc)
    status[(me + 1) % n] = 1
    pyshmem.wait_until_all(flags, pyshmem.CMP_EQ, 1, status=status)
    print(boxes.sum())  # <2>
    pyshmem.barrier_all()
