# SPDX-License-Identifier: BSD-3-Clause
"""Two buffers on a stream, with signals for full and for free, and the host once at the end. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="sim") as job:
    peer = 1 - job.my_pe
    box = pyshmem.zeros((2, 4), np.int64, heap="device")
    source, total = (pyshmem.ones(4, np.int64, heap="device") for _ in range(2))
    full, free = (pyshmem.new_signal(heap="device") for _ in range(2))
    stream = pyshmem.streams.Stream()
    for k in range(5):
        if k >= 2:
            pyshmem.signal_wait_until(free, pyshmem.CMP_GE, k - 1, stream=stream)
        pyshmem.put_signal(box[k % 2], source, full, 1, pyshmem.SIGNAL_ADD, peer, stream=stream)
        pyshmem.signal_wait_until(full, pyshmem.CMP_GE, k + 1, stream=stream)
        pyshmem.put(total, box[k % 2], job.my_pe, stream=stream)
        pyshmem.signal_add(free, 1, peer, stream=stream)
    stream.synchronize()
    print(total.sum())
    pyshmem.barrier_all()
    stream.destroy()
