# SPDX-License-Identifier: BSD-3-Clause
"""A captured exchange is replayed, on another stream too, with the source changed between. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="sim") as job:
    right = (job.my_pe + 1) % job.n_pes
    data, source, total = (pyshmem.zeros(4, np.int64, heap="device") for _ in range(3))
    flag = pyshmem.new_signal(heap="device")
    one, other = pyshmem.streams.Stream(), pyshmem.streams.Stream()
    pyshmem.streams.prepare()
    pyshmem.streams.prepare("sum_reduce", dtype="int64")
    with one.capture() as graph:
        pyshmem.put_signal(data, source, flag, 1, pyshmem.SIGNAL_ADD, right, stream=one)
        pyshmem.sum_reduce(total, source, stream=one)
    for turn, stream in enumerate((one, other, one), 1):
        source[:] = turn
        graph.replay(stream)
        pyshmem.signal_wait_until(flag, pyshmem.CMP_GE, turn, stream=stream)
        stream.synchronize()
        print(data[0], total[0])
        pyshmem.sync_all()
