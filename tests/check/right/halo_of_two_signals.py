# SPDX-License-Identifier: BSD-3-Clause
"""Halos of both sides by put_signal, each with a counter, and a credit before the next. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    up, down = (me + 1) % n, (me - 1) % n
    grid = pyshmem.zeros((6, 4))
    above, below, free = (pyshmem.new_signal() for _ in range(3))
    for turn in (1, 2, 3):
        pyshmem.signal_wait_until(free, pyshmem.CMP_GE, 2 * (turn - 1))
        pyshmem.put_signal(grid[0], grid[4].copy(), below, 1, pyshmem.SIGNAL_ADD, up)
        pyshmem.put_signal(grid[5], grid[1].copy(), above, 1, pyshmem.SIGNAL_ADD, down)
        pyshmem.signal_wait_until(below, pyshmem.CMP_EQ, turn)
        pyshmem.signal_wait_until(above, pyshmem.CMP_EQ, turn)
        grid[1:5] = (np.asarray(grid[0:4].copy()) + grid[2:6]) / 2 + me
        pyshmem.signal_add(free, 1, up)
        pyshmem.signal_add(free, 1, down)
    pyshmem.barrier_all()
