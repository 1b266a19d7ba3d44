# SPDX-License-Identifier: BSD-3-Clause
"""One of two arrivals is enough for what both of them had heard. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    data, count = pyshmem.zeros(4, np.int64), pyshmem.new_signal()
    if me == 2:
        pyshmem.put(data, np.arange(4), 0)
    pyshmem.quiet()
    team = pyshmem.TEAM_WORLD.split(0 if me else None)
    if me:
        team.sync()
        pyshmem.signal_add(count, 1, 0)
        team.destroy()
    else:
        pyshmem.signal_wait_until(count, pyshmem.CMP_GE, 1)
        assert data.sum() == 6
    pyshmem.barrier_all()
