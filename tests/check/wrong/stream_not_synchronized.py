# SPDX-License-Identifier: BSD-3-Clause
"""The host reads what a stream gets, and has not waited for the stream. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="sim") as job:
    right = (job.my_pe + 1) % job.n_pes
    data, source = (pyshmem.zeros(4, np.int64, heap="device") for _ in range(2))
    stream = pyshmem.streams.Stream()
    pyshmem.get(data, source, right, stream=stream)  # <1>
    print(data[0])  # <2>
    stream.synchronize()
    pyshmem.barrier_all()
