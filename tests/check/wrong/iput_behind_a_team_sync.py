# SPDX-License-Identifier: BSD-3-Clause
"""A column goes to a partner in the team; its sync completes no put. PEs: 4."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    grid = pyshmem.zeros((4, 4), np.int64)
    team = pyshmem.TEAM_WORLD.split(me // 2)
    mate = me ^ 1
    pyshmem.iput(grid.reshape(16)[me:], np.arange(4), mate, dst=4)  # <1>
    team.sync()
    print(grid[:, mate].sum())  # <2>
    pyshmem.barrier_all()
    team.destroy()
