# SPDX-License-Identifier: BSD-3-Clause
"""A flag is polled by reading it. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    right = (me + 1) % n
    data = pyshmem.zeros(8, np.int64)
    flag = pyshmem.new_signal()

    pyshmem.put_signal(data, np.full(8, me + 1), flag, 1, pyshmem.SIGNAL_SET, right)  # <1>
    while flag[0] != 1:  # <2>
        pass
    pyshmem.barrier_all()
