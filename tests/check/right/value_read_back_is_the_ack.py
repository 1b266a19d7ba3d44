# SPDX-License-Identifier: BSD-3-Clause
"""The reader sends back what it has read: who hears it may write again, without a quiet. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, other = job.my_pe, 1 - job.my_pe
    box, ack, sig = pyshmem.zeros(1, np.int64), pyshmem.zeros(1, np.int64), pyshmem.new_signal()
    total = 0
    for turn in range(1, 6):
        if me == 0:
            pyshmem.put_signal(box, np.array([turn * turn]), sig, turn, pyshmem.SIGNAL_SET, other)
            pyshmem.wait_until(ack, pyshmem.CMP_EQ, turn * turn)
            total += ack[0]
        else:
            pyshmem.signal_wait_until(sig, pyshmem.CMP_EQ, turn)
            pyshmem.atomic_set(ack, int(box[0]), other)
    print(total)
