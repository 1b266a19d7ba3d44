# SPDX-License-Identifier: BSD-3-Clause
"""Quiet of the default context, of a put through a team's. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    team = pyshmem.TEAM_WORLD.split_strided(1, 1, n - 1)
    data, src = pyshmem.zeros(4, np.int64), pyshmem.full(4, me, np.int64)
    if team is not None:
        ctx = pyshmem.Context(team=team)
        other = (team.my_pe() + 1) % team.n_pes()
        pyshmem.put(data, src, other, ctx=ctx)  # <1>
        pyshmem.quiet()
        team.sync()
        print(data[0])  # <2>
        ctx.destroy()
    pyshmem.barrier_all()
