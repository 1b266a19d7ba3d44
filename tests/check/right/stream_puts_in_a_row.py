# SPDX-License-Identifier: BSD-3-Clause
"""Puts to one place on one stream, then a signal, are in its order. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="sim") as job:
    me, n = job.my_pe, job.n_pes
    data, a, b = (pyshmem.zeros(4, np.int64, heap="device") for _ in range(3))
    flag = pyshmem.new_signal(heap="device")
    b[:] = 1
    s = pyshmem.streams.Stream()
    pyshmem.put(data, a, 1 - me, stream=s)
    pyshmem.put(data, b, 1 - me, stream=s)
    pyshmem.signal_set(flag, 1, 1 - me, stream=s)
    pyshmem.signal_wait_until(flag, pyshmem.CMP_EQ, 1, stream=s)
    s.synchronize()
    assert data[2] == 1
    pyshmem.barrier_all()
