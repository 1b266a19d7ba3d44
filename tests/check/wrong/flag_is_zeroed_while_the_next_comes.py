# SPDX-License-Identifier: BSD-3-Clause
"""The consumer zeroes its flag, and the producer has not waited for that. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    data, flag = pyshmem.zeros((2, 4), np.int64), pyshmem.new_signal()
    if me == 0:
        for turn in range(2):
            pyshmem.put_signal(data[turn], np.full(4, turn), flag, 1, pyshmem.SIGNAL_ADD, 1)  # <1>
    else:
        pyshmem.signal_wait_until(flag, pyshmem.CMP_GE, 1)
        flag[0] = 0  # <2>
    pyshmem.barrier_all()
