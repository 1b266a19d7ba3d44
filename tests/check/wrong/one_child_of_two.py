# SPDX-License-Identifier: BSD-3-Clause
"""The parent waits for its first child and reads the part of the second, too. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    below, up = pyshmem.zeros(2, np.int64), pyshmem.new_signal(2)
    if me:
        k = me - 1
        part = np.array([me])
        pyshmem.put_signal(below[k:], part, up[k:], 1, pyshmem.SIGNAL_SET, 0)  # <1>
    else:
        pyshmem.signal_wait_until(up, pyshmem.CMP_EQ, 1)
        print(np.sum(below))  # <2>
    pyshmem.barrier_all()
