# SPDX-License-Identifier: BSD-3-Clause
"""A chain on a stream: put_signal, wait, kernel, put_signal back; the host waits once. PEs: 2."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device as shmem  # noqa: F401


@cuda.jit
def add(data, n):
    i = cuda.grid(1)
    data[i] += n


with pyshmem.init(device="sim") as job:
    peer = 1 - job.my_pe
    a, b = (pyshmem.zeros(4, np.int64, heap="device") for _ in range(2))
    there, back = (pyshmem.new_signal(heap="device") for _ in range(2))
    stream = pyshmem.streams.Stream()
    for turn in range(1, 4):
        add[1, 4, stream](a, turn)
        pyshmem.put_signal(b, a, there, turn, pyshmem.SIGNAL_SET, peer, stream=stream)
        pyshmem.signal_wait_until(there, pyshmem.CMP_GE, turn, stream=stream)
        add[1, 4, stream](b, 100)
        pyshmem.put_signal(a, b, back, turn, pyshmem.SIGNAL_SET, peer, stream=stream)
        pyshmem.signal_wait_until(back, pyshmem.CMP_GE, turn, stream=stream)
    stream.synchronize()
    print(a, b)
