# SPDX-License-Identifier: BSD-3-Clause
"""The next kernel fills what a put on another stream still reads. PEs: 2."""

import numpy as np
from numba import cuda

import pyshmem


@cuda.jit
def fill(data, v):
    data[cuda.grid(1)] = v  # <1>


with pyshmem.init(device="sim") as job:
    me, n = job.my_pe, job.n_pes
    right = (me + 1) % n
    data, box = (pyshmem.zeros(8, np.int64, heap="device") for _ in range(2))
    s, t = pyshmem.streams.Stream(), pyshmem.streams.Stream()
    e = cuda.event()
    for turn in range(1, 3):
        fill[2, 4, s](data, turn)
        e.record(s)
        e.wait(t)
        pyshmem.put(box, data, right, stream=t)  # <2>
    cuda.synchronize()
    pyshmem.barrier_all()
