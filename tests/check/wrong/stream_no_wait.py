# SPDX-License-Identifier: BSD-3-Clause
"""The neighbour's kernel reads before it has waited for the signal. PEs: 2."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device as shmem  # noqa: F401


@cuda.jit
def double(out, data):
    i = cuda.grid(1)
    out[i] = 2 * data[i]  # <2>


with pyshmem.init(device="sim") as job:
    right = (job.my_pe + 1) % job.n_pes
    data, source, out = (pyshmem.zeros(4, np.int64, heap="device") for _ in range(3))
    flag = pyshmem.new_signal(heap="device")
    stream = pyshmem.streams.Stream()
    pyshmem.put_signal(data, source, flag, 1, pyshmem.SIGNAL_SET, right, stream=stream)  # <1>
    double[2, 2, stream](out, data)
    pyshmem.signal_wait_until(flag, pyshmem.CMP_EQ, 1, stream=stream)
    stream.synchronize()
