# SPDX-License-Identifier: BSD-3-Clause
"""A flag that its reader sets back, before it lets the sender go on. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me = job.my_pe
    data = pyshmem.zeros(8, np.int64)
    flag = pyshmem.new_signal()
    ack = pyshmem.new_signal()
    for turn in range(3):
        if me == 0:
            pyshmem.put_signal(data, np.full(8, turn), flag, 1, pyshmem.SIGNAL_SET, 1)
            pyshmem.signal_wait_until(ack, pyshmem.CMP_EQ, 1)
            ack[0] = 0
        else:
            pyshmem.signal_wait_until(flag, pyshmem.CMP_EQ, 1)
            assert data[0] == turn
            flag[0] = 0
            pyshmem.signal_set(ack, 1, 0)
    pyshmem.barrier_all()
