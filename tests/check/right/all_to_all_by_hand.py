# SPDX-License-Identifier: BSD-3-Clause
"""Everybody has a slot at everybody, and waits for all of them. PEs: 4."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    boxes, flags = pyshmem.zeros((n, 2), np.int64), pyshmem.new_signal(n)
    for step in range(1, 4):
        for k in range(n):
            pe = (me + k) % n
            value = np.array([me, 10 * me + step])
            pyshmem.put_signal(boxes[me], value, flags[me:], step, pyshmem.SIGNAL_SET, pe)
        pyshmem.wait_until_all(flags, pyshmem.CMP_EQ, step)
        assert boxes[:, 1].tolist() == [10 * pe + step for pe in range(n)]
        pyshmem.sync_all()
