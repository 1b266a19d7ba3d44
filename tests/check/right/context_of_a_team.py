# SPDX-License-Identifier: BSD-3-Clause
"""Puts on a team's context, to its members by their numbers there. PEs: 4."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    data = pyshmem.zeros(4, np.int64)
    team = pyshmem.TEAM_WORLD.split(me % 2)
    ctx = team.create_ctx()
    pyshmem.put_nbi(data, np.full(4, me), 1 - team.my_pe(), ctx=ctx)
    ctx.quiet()
    team.sync()
    assert data[2] == me ^ 2
    pyshmem.barrier_all()
    ctx.destroy()
    team.destroy()
