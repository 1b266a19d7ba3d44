# SPDX-License-Identifier: BSD-3-Clause
"""A test may fail; what it was for is read all the same. PEs: 2."""

import time

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    data, flag = pyshmem.zeros(4, np.int64), pyshmem.new_signal()
    if me == 1:
        pyshmem.test(flag, pyshmem.CMP_EQ, 1)
        print(data.tolist())  # <2>
    else:
        time.sleep(0.3)  # a test that succeeds has heard of the data
        pyshmem.put_signal(data, np.arange(4), flag, 1, pyshmem.SIGNAL_SET, 1)  # <1>
    pyshmem.barrier_all()
