# SPDX-License-Identifier: BSD-3-Clause
"""The source of a graph's put is changed between two replays, without a wait for the first. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="sim") as job:
    right = (job.my_pe + 1) % job.n_pes
    data, source = (pyshmem.zeros(4, np.int64, heap="device") for _ in range(2))
    stream = pyshmem.streams.Stream()
    with stream.capture() as graph:
        pyshmem.put(data, source, right, stream=stream)  # <1>
    graph.replay(stream)
    source[0] = 1  # <2>
    graph.replay(stream)
    stream.synchronize()
    pyshmem.barrier_all()
