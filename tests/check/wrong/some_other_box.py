# SPDX-License-Identifier: BSD-3-Clause
"""Some flags have come; a box that is not among them is read too. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    boxes, flags = pyshmem.zeros(n, np.int64), pyshmem.new_signal(n)
    for pe in range(n):
        pyshmem.put_signal(boxes[me:], np.full(1, me), flags[me:], 1, pyshmem.SIGNAL_SET, pe)  # <1>
    for k in pyshmem.wait_until_some(flags, pyshmem.CMP_EQ, 1):
        print(boxes[(int(k) + 1) % n])  # <2>
    pyshmem.barrier_all()
