# SPDX-License-Identifier: BSD-3-Clause
"""The source of a replayed put is changed by the host while the graph may run. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="sim") as job:
    peer = 1 - job.my_pe
    data, source = (pyshmem.zeros(4, np.int64, heap="device") for _ in range(2))
    stream = pyshmem.streams.Stream()
    pyshmem.streams.prepare()
    with stream.capture() as graph:
        pyshmem.put(data, source, peer, stream=stream)  # <1>
    for turn in (1, 2):
        source[:] = turn  # <2>
        graph.replay(stream)
    stream.synchronize()
    pyshmem.barrier_all()
    stream.destroy()
