# SPDX-License-Identifier: BSD-3-Clause
"""Two halos come by put_signal to one counter, and one arrival is waited for. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    up, down = (me + 1) % n, (me - 1) % n
    grid, here = pyshmem.zeros((6, 4)), pyshmem.new_signal()
    pyshmem.put_signal(grid[0], np.full(4, float(me)), here, 1, pyshmem.SIGNAL_ADD, up)
    pyshmem.put_signal(grid[5], np.full(4, float(me)), here, 1, pyshmem.SIGNAL_ADD, down)  # <1>
    pyshmem.signal_wait_until(here, pyshmem.CMP_GE, 1)
    grid[4] = grid[5] + 1  # <2>
    pyshmem.barrier_all()
