# SPDX-License-Identifier: BSD-3-Clause
"""Memory of empty is filled by peers, and only what they filled is read. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    box, flags = pyshmem.empty((n, 4), np.int64), pyshmem.new_signal(n)
    for pe in range(n):
        pyshmem.put_signal(box[me, :2], np.arange(2), flags[me:], 1, pyshmem.SIGNAL_SET, pe)
    pyshmem.wait_until_all(flags, pyshmem.CMP_EQ, 1)
    assert box[:, :2].sum() == n
    pyshmem.barrier_all()
