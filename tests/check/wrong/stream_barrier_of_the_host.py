# SPDX-License-Identifier: BSD-3-Clause
"""A barrier of the hosts does not wait for what their streams put. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="sim") as job:
    right = (job.my_pe + 1) % job.n_pes
    data, source = (pyshmem.zeros(4, np.int64, heap="device") for _ in range(2))
    stream = pyshmem.streams.Stream()
    pyshmem.put(data, source, right, stream=stream)  # <1>
    pyshmem.barrier_all()
    print(data[0])  # <2>
    stream.synchronize()
    pyshmem.barrier_all()
