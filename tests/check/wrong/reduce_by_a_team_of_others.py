# SPDX-License-Identifier: BSD-3-Clause
"""The sum of the even PEs says nothing of what an odd one has put. PEs: 4."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    data = pyshmem.zeros(2, np.int64)
    total, mine = pyshmem.zeros(1, np.int64), pyshmem.ones(1, np.int64)
    team = pyshmem.TEAM_WORLD.split(me % 2)
    if me == 1:
        pyshmem.p(data, 5, 0)  # <1>
        pyshmem.quiet()
    pyshmem.sum_reduce(total, mine, team=team)
    if me == 0:
        print(data[0])  # <2>
    pyshmem.barrier_all()
    team.destroy()
