# SPDX-License-Identifier: BSD-3-Clause
"""Neighbours that come in any order. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    boxes, flags = pyshmem.zeros(n, np.int64), pyshmem.new_signal(n)
    for pe in range(n):
        pyshmem.put_signal(boxes[me:], np.full(1, me + 1), flags[me:], 1, pyshmem.SIGNAL_SET, pe)
    got = np.zeros(n, np.intc)
    for _ in range(n):
        k = pyshmem.wait_until_any(flags, pyshmem.CMP_EQ, 1, status=got)
        got[k] = 1
        assert boxes[k] == k + 1
    pyshmem.barrier_all()
