# SPDX-License-Identifier: BSD-3-Clause
"""Two streams add to one counter, and a third waits for one arrival. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="sim") as job:
    me, n = job.my_pe, job.n_pes
    box = pyshmem.zeros((2, 4), np.int64, heap="device")
    src, got = (pyshmem.ones(4, np.int64, heap="device") for _ in range(2))
    count = pyshmem.new_signal(heap="device")
    streams = [pyshmem.streams.Stream() for _ in range(3)]
    for k in range(2):
        add, on = pyshmem.SIGNAL_ADD, streams[k]
        pyshmem.put_signal(box[k], src, count, 1, add, 1 - me, stream=on)  # <1>
    pyshmem.signal_wait_until(count, pyshmem.CMP_GE, 1, stream=streams[2])
    pyshmem.put(got, box[0], me, stream=streams[2])  # <2>
    for stream in streams:
        stream.synchronize()
    pyshmem.barrier_all()
