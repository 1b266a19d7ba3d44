# SPDX-License-Identifier: BSD-3-Clause
"""A sync of a team in a kernel, and data of a PE that is not in it. PEs: 4."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device as shmem


@cuda.jit
def use(team, data, out, to, left):
    shmem.p(data, 5, to)  # <1>
    shmem.quiet()
    shmem.team_sync(team)
    out[0] = data[0]  # <2>


with pyshmem.init(device="sim") as job:
    me, n = job.my_pe, job.n_pes
    data, out = (pyshmem.zeros(1, np.int64, heap="device") for _ in range(2))
    team = pyshmem.TEAM_WORLD.split(me // 2)
    use[1, 1](shmem.as_argument(team), data, out, (me + 1) % n, 0)
    cuda.synchronize()
    pyshmem.barrier_all()
