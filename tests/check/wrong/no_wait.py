# SPDX-License-Identifier: BSD-3-Clause
"""Data is read before its signal. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    right = (me + 1) % n
    data = pyshmem.zeros(8, np.int64)
    flag = pyshmem.new_signal()

    pyshmem.put_signal(data, np.full(8, me + 1), flag, 1, pyshmem.SIGNAL_SET, right)  # <1>
    print(data[0])  # <2>
    pyshmem.signal_wait_until(flag, pyshmem.CMP_EQ, 1)
    pyshmem.barrier_all()
