# SPDX-License-Identifier: BSD-3-Clause
"""Streams of Numba: an event between them, and the host waits for the second. PEs: 2."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device as shmem


@cuda.jit
def fill(data, value):
    data[cuda.grid(1)] = value


@cuda.jit
def send(data, source, peer):
    shmem.put(data, source, peer)


with pyshmem.init(device="sim") as job:
    data, source = (pyshmem.zeros(8, np.int64, heap="device") for _ in range(2))
    one, other, filled = cuda.stream(), cuda.stream(), cuda.event()
    for turn in (1, 2, 3):
        fill[1, 8, one](source, turn)
        filled.record(one)
        filled.wait(other)
        send[1, 1, other](data, source, 1 - job.my_pe)
        other.synchronize()
        pyshmem.barrier_all()
        print(data.sum(), source.sum())
        pyshmem.sync_all()
    with one.auto_synchronize():
        fill[1, 8, one](source, 7)
    print(source[0])
