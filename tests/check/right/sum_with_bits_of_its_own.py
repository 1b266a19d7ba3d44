# SPDX-License-Identifier: BSD-3-Clause
"""Each PE adds a bit of its own, and the sum says who has come. PEs: 4."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    parts, bits = pyshmem.zeros((4, 2), np.int64), pyshmem.new_signal()
    pyshmem.put(parts[me], np.full(2, me), 0)
    pyshmem.fence()
    pyshmem.signal_add(bits, 1 << me, 0)
    if me == 0:
        got = pyshmem.signal_wait_until(bits, pyshmem.CMP_GE, 8)
        for pe in range(n):
            if int(got) >> pe & 1:
                assert (parts[pe] == pe).all()
        pyshmem.signal_wait_until(bits, pyshmem.CMP_EQ, 15)
        assert parts.sum() == 12
    pyshmem.barrier_all()
