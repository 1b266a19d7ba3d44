# SPDX-License-Identifier: BSD-3-Clause
"""Pairs by a team's number in a kernel, each with what its partner has put. PEs: 4."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device as shmem


@cuda.jit
def use(team, data, out, to):
    i = cuda.threadIdx.x
    shmem.put_work_group(data[:4], data[4:], to)
    shmem.quiet_work_group()
    shmem.team_sync_work_group(team)
    out[i] = data[i]


with pyshmem.init(device="sim") as job:
    me, n = job.my_pe, job.n_pes
    data, out = pyshmem.ones(8, np.int64, heap="device"), pyshmem.zeros(4, np.int64, heap="device")
    team = pyshmem.TEAM_WORLD.split(me // 2)
    use[1, 4](shmem.as_argument(team), data, out, me ^ 1)
    cuda.synchronize()
    assert out[2] == 1
    pyshmem.barrier_all()
    team.destroy()
