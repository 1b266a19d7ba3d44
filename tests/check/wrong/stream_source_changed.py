# SPDX-License-Identifier: BSD-3-Clause
"""The host changes the source of a put that a stream has yet to come to. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="sim") as job:
    right = (job.my_pe + 1) % job.n_pes
    data, source = (pyshmem.zeros(4, np.int64, heap="device") for _ in range(2))
    stream = pyshmem.streams.Stream()
    pyshmem.put(data, source, right, stream=stream)  # <1>
    source[1] = 5  # <2>
    stream.synchronize()
    pyshmem.barrier_all()
