# SPDX-License-Identifier: BSD-3-Clause
"""A graph writes what a graph on another stream sends. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="sim") as job:
    me, n = job.my_pe, job.n_pes
    a, b, c = (pyshmem.zeros(4, np.int64, heap="device") for _ in range(3))
    one, two = pyshmem.streams.Stream(), pyshmem.streams.Stream()
    with one.capture() as first:
        pyshmem.get(a, c, 1 - me, stream=one)  # <1>
    with two.capture() as second:
        pyshmem.put(b, a, 1 - me, stream=two)  # <2>
    first.replay(one)
    second.replay(two)
    one.synchronize()
    two.synchronize()
    pyshmem.barrier_all()
