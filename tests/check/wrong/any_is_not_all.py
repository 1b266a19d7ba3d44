# SPDX-License-Identifier: BSD-3-Clause
"""One of the flags has come, and all boxes are read. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    boxes, flags = pyshmem.zeros(n, np.int64), pyshmem.new_signal(n)
    for pe in range(n):
        value = np.array([me])
        pyshmem.put_signal(boxes[me:], value, flags[me:], 1, pyshmem.SIGNAL_SET, pe)  # <1>
    pyshmem.wait_until_any(flags, pyshmem.CMP_EQ, 1)
    print(np.array(boxes))  # <2>
    pyshmem.barrier_all()
