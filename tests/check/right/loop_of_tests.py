# SPDX-License-Identifier: BSD-3-Clause
"""A program that polls by test. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    left, right = (me - 1) % n, (me + 1) % n
    data = pyshmem.zeros(8, np.int64)
    flag = pyshmem.new_signal()

    pyshmem.put_signal(data, np.full(8, me), flag, 1, pyshmem.SIGNAL_SET, right)
    while not pyshmem.test(flag, pyshmem.CMP_EQ, 1):
        pass
    assert data[0] == left
    pyshmem.barrier_all()
