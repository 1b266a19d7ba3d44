# SPDX-License-Identifier: BSD-3-Clause
"""A source that is changed when the receiver has acknowledged its data: that has been read. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    left, right = (me - 1) % n, (me + 1) % n
    data, source = pyshmem.zeros(8, np.int64), pyshmem.zeros(8, np.int64)
    flag, ack = pyshmem.new_signal(), pyshmem.new_signal()
    for turn in range(1, 4):
        source[:] = turn
        pyshmem.put_signal_nbi(data, source, flag, turn, pyshmem.SIGNAL_SET, right)
        pyshmem.signal_wait_until(flag, pyshmem.CMP_EQ, turn)
        assert data[0] == turn
        pyshmem.signal_set(ack, turn, left)
        pyshmem.signal_wait_until(ack, pyshmem.CMP_EQ, turn)
    pyshmem.barrier_all()
