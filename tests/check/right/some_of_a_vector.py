# SPDX-License-Identifier: BSD-3-Clause
"""Rounds of different lengths: each word is waited for by its own number. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    boxes, flags = pyshmem.zeros((n, n), np.int64), pyshmem.new_signal(n)
    for pe in range(n):
        for part in range(me + 1):
            pyshmem.put_signal(
                boxes[me, part:], np.array([me]), flags[me:], 1, pyshmem.SIGNAL_ADD, pe
            )
    done = np.zeros(n, np.intc)
    wanted = np.arange(1, n + 1)
    while not done.all():
        some = pyshmem.wait_until_some_vector(flags, pyshmem.CMP_GE, wanted, status=done)
        done[some] = 1
        assert all((boxes[pe, : pe + 1] == pe).all() for pe in some)
    pyshmem.barrier_all()
