# SPDX-License-Identifier: BSD-3-Clause
"""A sync of a team orders its members, not the PE outside it. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me = job.my_pe
    data = pyshmem.zeros(8, np.int64)
    flag = pyshmem.new_signal()

    team = pyshmem.TEAM_WORLD.split_strided(0, 1, 2)
    if me == 2:
        pyshmem.put(data, np.full(8, 1), 0)  # <1>
        pyshmem.quiet()
    if team is not None:
        team.sync()
    if me == 0:
        print(data[0])  # <2>
    pyshmem.barrier_all()
    if team is not None:
        team.destroy()
