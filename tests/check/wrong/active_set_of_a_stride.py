# SPDX-License-Identifier: BSD-3-Clause
"""Every second PE syncs, and one of them reads what a PE between has put. PEs: 4."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me = job.my_pe
    data, seen = pyshmem.zeros(4, np.int64), pyshmem.zeros(4, np.int64)
    even = pyshmem.TEAM_WORLD.split_strided(0, 2, 2)
    if me == 1:
        pyshmem.put(data, np.full(4, me), 0)  # <1>
        pyshmem.quiet()
    if even is not None:
        pyshmem.sum_reduce(seen, seen, team=even)
        if me == 0:
            print(data.sum())  # <2>
    pyshmem.barrier_all()
    if even is not None:
        even.destroy()
