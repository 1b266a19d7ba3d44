# SPDX-License-Identifier: BSD-3-Clause
"""A flag is set back through a plain view, which is not seen. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    left, right = (me - 1) % n, (me + 1) % n
    data = pyshmem.zeros(8, np.int64)
    flag = pyshmem.new_signal()
    plain, ack = np.asarray(flag).view(np.ndarray), pyshmem.new_signal()
    for turn in range(3):
        pyshmem.put_signal(data, np.full(8, turn), flag, 1, pyshmem.SIGNAL_SET, right)
        pyshmem.signal_wait_until(flag, pyshmem.CMP_EQ, 1)
        assert data[0] == turn
        plain[0] = 0
        pyshmem.signal_set(ack, turn + 1, left)
        pyshmem.signal_wait_until(ack, pyshmem.CMP_EQ, turn + 1)
    pyshmem.barrier_all()
