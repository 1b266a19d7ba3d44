# SPDX-License-Identifier: BSD-3-Clause
"""Teams that work side by side. PEs: 4."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    data = pyshmem.zeros(8, np.int64)
    flag = pyshmem.new_signal()

    team = pyshmem.TEAM_WORLD.split(me % 2)
    other = (me + 2) % n
    pyshmem.put(data, np.full(8, me), other)
    pyshmem.quiet()
    team.sync()
    assert data[0] == other
    team.sync()
    team.destroy()
