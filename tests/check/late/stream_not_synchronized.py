# SPDX-License-Identifier: BSD-3-Clause
"""A barrier of the host waits for no stream: what one puts may come behind it. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="sim") as job:
    right = (job.my_pe + 1) % job.n_pes
    data, source = (pyshmem.zeros(4, np.int64, heap="device") for _ in range(2))
    stream = pyshmem.streams.Stream()
    source[:] = 1
    pyshmem.put(data, source, right, stream=stream)
    pyshmem.barrier_all()
    print(data.sum())
    stream.synchronize()
