# SPDX-License-Identifier: BSD-3-Clause
"""The host puts where its stream is putting. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="sim") as job:
    me, n = job.my_pe, job.n_pes
    data, a, b = (pyshmem.zeros(4, np.int64, heap="device") for _ in range(3))
    b[:] = 1
    s = pyshmem.streams.Stream()
    pyshmem.put(data, a, 1 - me, stream=s)  # <1>
    pyshmem.put(data, b, 1 - me)  # <2>
    s.synchronize()
    pyshmem.barrier_all()
