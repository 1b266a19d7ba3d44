# SPDX-License-Identifier: BSD-3-Clause
"""A kernel's puts are not complete when the next signal of its stream is sent. PEs: 2."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device as shmem


@cuda.jit
def send(data, right):
    i = cuda.grid(1)
    shmem.p(data[i:], i, right)  # <1>


with pyshmem.init(device="sim") as job:
    right = (job.my_pe + 1) % job.n_pes
    data = pyshmem.zeros(4, np.int64, heap="device")
    flag = pyshmem.new_signal(heap="device")
    stream = pyshmem.streams.Stream()
    send[2, 2, stream](data, right)
    pyshmem.signal_set(flag, 1, right, stream=stream)
    pyshmem.signal_wait_until(flag, pyshmem.CMP_EQ, 1, stream=stream)
    stream.synchronize()
    print(data[0])  # <2>
