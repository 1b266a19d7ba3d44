# SPDX-License-Identifier: BSD-3-Clause
"""Puts, signals, waits and kernels on one stream; the host looks behind them. PEs: 2."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device as shmem  # noqa: F401


@cuda.jit
def double(out, data):
    i = cuda.grid(1)
    out[i] = 2 * data[i]


with pyshmem.init(device="sim") as job:
    right = (job.my_pe + 1) % job.n_pes
    data, source, out = (pyshmem.zeros(4, np.int64, heap="device") for _ in range(3))
    flag = pyshmem.new_signal(heap="device")
    stream = pyshmem.streams.Stream()
    source[:] = np.arange(4)
    for turn in (1, 2, 3):
        pyshmem.put(data, source, right, stream=stream)
        pyshmem.signal_set(flag, turn, right, stream=stream)
        pyshmem.signal_wait_until(flag, pyshmem.CMP_GE, turn, stream=stream)
        double[2, 2, stream](out, data)
        stream.synchronize()
        source[:] = np.asarray(source.tolist()) + out.sum()
        pyshmem.sync_all()
    stream.destroy()
