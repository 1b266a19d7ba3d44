# SPDX-License-Identifier: BSD-3-Clause
"""Making a team is collective, and completes no put. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    x = pyshmem.zeros(8, np.int64)
    pyshmem.put(x, np.arange(8), 1 - job.my_pe)  # <1>
    pyshmem.quiet()
    team = pyshmem.TEAM_WORLD.split_strided(0, 1, job.n_pes)
    print(x.sum())  # <2>
    team.destroy()
