# SPDX-License-Identifier: BSD-3-Clause
"""A store through ptr, and a barrier of a team that its reader is not in. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me = job.my_pe
    data = pyshmem.zeros(8, np.int64)
    there = pyshmem.ptr(data, 2)
    if me == 0:
        there[3] = 4  # <1>
    pair = pyshmem.TEAM_WORLD.split_strided(0, 1, 2)
    if pair is not None:
        pair.sync()
        if me == 1:
            print(pyshmem.g(data[3:], 2))  # <2>
    pyshmem.barrier_all()
    if pair is not None:
        pair.destroy()
