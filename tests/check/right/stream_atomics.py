# SPDX-License-Identifier: BSD-3-Clause
"""Tickets and words on a stream, and a quiet for what its kernel has put. PEs: 2."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device as shmem


@cuda.jit
def send(data, right):
    i = cuda.grid(1)
    shmem.p(data[i:], i, right)


with pyshmem.init(device="sim") as job:
    right = (job.my_pe + 1) % job.n_pes
    data = pyshmem.zeros(4, np.int64, heap="device")
    count, ticket, found = (pyshmem.zeros(1, np.int64, heap="device") for _ in range(3))
    flags = pyshmem.zeros(4, np.int64, heap="device")
    stream = pyshmem.streams.Stream()
    send[2, 2, stream](data, right)
    pyshmem.quiet(stream=stream)
    pyshmem.p(flags[2:], 1, right, stream=stream)
    pyshmem.atomic_fetch_add_nbi(ticket, count, 1, 0, stream=stream)
    pyshmem.wait_until_any(flags, pyshmem.CMP_EQ, 1, found=found, stream=stream)
    stream.synchronize()
    assert found[0] == 2
    print(data.sum(), ticket[0] < 2)  # who comes first is left open
    pyshmem.sync_all()
