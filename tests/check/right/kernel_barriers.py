# SPDX-License-Identifier: BSD-3-Clause
"""Barriers and syncs of all PEs by a thread, a warp and a block, in rounds. PEs: 2."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device as shmem


@cuda.jit
def meet(dest, mine, seen, right):
    i, b = cuda.threadIdx.x, cuda.blockIdx.x
    for turn in range(1, 4):
        mine[i] = turn
        shmem.sync_all_work_group()
        seen[4 + i] = shmem.g(mine[i:], right)
        if i == 0:
            shmem.p(dest, turn, right)
        shmem.barrier_all_work_group()
        seen[i] = dest[b]
        shmem.barrier_all_work_group()


@cuda.jit
def meet_alone(dest, mine, seen, right):
    for turn in range(1, 4):
        mine[0] = 10 + turn
        shmem.p(dest, turn, right)
        shmem.barrier_all()
        seen[0] = dest[0] + shmem.g(mine, right)
        shmem.sync_all()


@cuda.jit
def meet_warps(dest, mine, seen, right):
    i = cuda.threadIdx.x
    for turn in range(1, 3):
        mine[i % 4] = 20
        if i == 0:
            shmem.p(dest, turn, right)
        shmem.barrier_all_warp()
        if i < 4:
            seen[i] = dest[0] + shmem.g(mine[i:], right)
        shmem.team_sync_warp(0)


with pyshmem.init(device="sim") as job:
    me, n = job.my_pe, job.n_pes
    right, left = (me + 1) % n, (me - 1) % n
    dest, mine, seen = (pyshmem.zeros(8, np.int64, heap="device") for _ in range(3))
    meet[1, 4](dest, mine, seen, right)
    cuda.synchronize()
    pyshmem.barrier_all()
    meet_alone[1, 1](dest, mine, seen, right)
    cuda.synchronize()
    pyshmem.barrier_all()
    meet_warps[1, 32](dest, mine, seen, right)
    cuda.synchronize()
    pyshmem.barrier_all()
    assert left >= 0
