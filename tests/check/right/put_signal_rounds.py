# SPDX-License-Identifier: BSD-3-Clause
"""A buffer with an acknowledgement of each round. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    left, right = (me - 1) % n, (me + 1) % n
    data = pyshmem.zeros(8, np.int64)
    flag = pyshmem.new_signal()
    ack = pyshmem.new_signal()
    for turn in range(1, 5):
        pyshmem.put_signal(data, np.full(8, turn), flag, turn, pyshmem.SIGNAL_SET, right)
        pyshmem.signal_wait_until(flag, pyshmem.CMP_EQ, turn)
        assert (data == turn).all()
        pyshmem.signal_set(ack, turn, left)
        pyshmem.signal_wait_until(ack, pyshmem.CMP_EQ, turn)
    pyshmem.barrier_all()
