# SPDX-License-Identifier: BSD-3-Clause
"""A column is got while its owner is sent another one that crosses it. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    peer = 1 - job.my_pe
    grid, mine = pyshmem.zeros((4, 4), np.int64), np.zeros(4, np.int64)
    pyshmem.put(grid[2], np.ones(4, np.int64), peer)  # <1>
    flat = grid.reshape(-1)
    pyshmem.iget(mine, flat[1:], peer, sst=4, nelems=4)  # <2>
    pyshmem.barrier_all()
