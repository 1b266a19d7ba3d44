# SPDX-License-Identifier: BSD-3-Clause
"""Tests of all flags in a loop, and work of its own between them. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    boxes, flags = pyshmem.zeros(n, np.int64), pyshmem.new_signal(n)
    for pe in range(n):
        pyshmem.p(boxes[me:], 5, pe)
        pyshmem.fence()
        pyshmem.signal_set(flags[me:], 1, pe)
    work = pyshmem.zeros(4)
    while not pyshmem.test_all(flags, pyshmem.CMP_NE, 0):
        work += 1
    assert (boxes == 5).all()
    pyshmem.barrier_all()
