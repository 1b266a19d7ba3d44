# SPDX-License-Identifier: BSD-3-Clause
"""A stream waits for a reduction that the host has begun, and the host for the stream. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="sim") as job:
    right = (job.my_pe + 1) % job.n_pes
    total, mine, data = (pyshmem.zeros(4, np.int64, heap="device") for _ in range(3))
    stream = pyshmem.streams.Stream()
    mine[:] = job.my_pe
    request = pyshmem.sum_reduce_nb(total, mine)
    request.wait(stream)
    pyshmem.put(data, total, right, stream=stream)
    stream.synchronize()
    request.wait()
    mine[:] = total.sum()
    pyshmem.barrier_all()
    print(data[0])
