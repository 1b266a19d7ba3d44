# SPDX-License-Identifier: BSD-3-Clause
"""Collectives on two streams, on a channel each; what comes behind uses their results. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="sim") as job:
    me, n = job.my_pe, job.n_pes
    total, scaled, mine = (pyshmem.zeros(4, np.float32, heap="device") for _ in range(3))
    gathered = pyshmem.zeros(4 * n, np.float32, heap="device")
    streams = [pyshmem.streams.Stream() for _ in range(2)]
    channels = pyshmem.TEAM_WORLD.channels(2)
    mine[:] = me
    pyshmem.sum_reduce(total, mine, team=channels[0], stream=streams[0])
    pyshmem.fcollect(gathered, mine, team=channels[1], stream=streams[1])
    pyshmem.put(scaled, total, (me + 1) % n, stream=streams[0])
    pyshmem.barrier_all(stream=streams[0])
    for stream in streams:
        stream.synchronize()
    print(scaled.sum(), gathered.sum())
    mine[:] = 0
