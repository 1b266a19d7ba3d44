# SPDX-License-Identifier: BSD-3-Clause
"""Reductions in rows, then in columns, of a square of PEs. PEs: 4."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    rows, columns = pyshmem.TEAM_WORLD.split_2d(2)
    mine, total = pyshmem.full(2, me + 1, np.int64), pyshmem.zeros(2, np.int64)
    for _ in range(3):
        pyshmem.sum_reduce(total, mine, team=rows)
        mine[:] = total
        pyshmem.sum_reduce(total, mine, team=columns)
        mine[:] = total // 10
    assert total[0] >= 0
