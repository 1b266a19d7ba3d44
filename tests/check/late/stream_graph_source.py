# SPDX-License-Identifier: BSD-3-Clause
"""The source of a graph's put is changed for the next replay before this one is over. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="sim") as job:
    right = (job.my_pe + 1) % job.n_pes
    data, source = (pyshmem.zeros(4, np.int64, heap="device") for _ in range(2))
    flag = pyshmem.zeros(1, np.uint64, heap="device")
    stream = pyshmem.streams.Stream()
    with stream.capture() as graph:
        pyshmem.put_signal(data, source, flag, 1, pyshmem.SIGNAL_ADD, right, stream=stream)
    for turn in (1, 2):
        source[:] = turn
        graph.replay(stream)
        pyshmem.signal_wait_until(flag, pyshmem.CMP_GE, turn, stream=stream)
    stream.synchronize()
    pyshmem.barrier_all()
    print(data.sum())
