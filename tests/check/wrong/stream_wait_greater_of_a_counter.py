# SPDX-License-Identifier: BSD-3-Clause
"""A stream waits for one of two arrivals, and a kernel reads both. PEs: 3."""

import numpy as np
from numba import cuda

import pyshmem


@cuda.jit
def add(out, parts):
    i = cuda.grid(1)
    out[i] = parts[1, i] + parts[2, i]  # <2>


with pyshmem.init(device="sim") as job:
    me = job.my_pe
    parts = pyshmem.zeros((3, 4), np.int64, heap="device")
    source, out = (pyshmem.ones(4, np.int64, heap="device") for _ in range(2))
    here = pyshmem.new_signal(heap="device")
    stream = pyshmem.streams.Stream()
    if me:
        pyshmem.put_signal(parts[me], source, here, 1, pyshmem.SIGNAL_ADD, 0, stream=stream)  # <1>
    else:
        pyshmem.signal_wait_until(here, pyshmem.CMP_GT, 0, stream=stream)
        add[1, 4, stream](out, parts)
    stream.synchronize()
    pyshmem.barrier_all()
    stream.destroy()
