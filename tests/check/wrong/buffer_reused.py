# SPDX-License-Identifier: BSD-3-Clause
"""The next round is put before the receiver has read the last. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me = job.my_pe
    data = pyshmem.zeros(8, np.int64)
    flag = pyshmem.new_signal()

    for turn in range(1, 3):
        if me == 0:
            pyshmem.put_signal(data, np.full(8, turn), flag, turn, pyshmem.SIGNAL_SET, 1)  # <1> <2>
        else:
            pyshmem.signal_wait_until(flag, pyshmem.CMP_GE, turn)
            print(data[0])
    pyshmem.barrier_all()
