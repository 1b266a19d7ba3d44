# SPDX-License-Identifier: BSD-3-Clause
"""An array is made larger, and used by its new name alone. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    peer = 1 - job.my_pe
    data = pyshmem.ones(8, np.int64)
    keep = pyshmem.zeros(4, np.int64)
    pyshmem.put(data[:4], np.full(4, 2), peer)
    pyshmem.barrier_all()
    data = pyshmem.realloc(data, 4096)
    print(data[:8].sum())
    pyshmem.sync_all()
    pyshmem.put(data[4000:], np.full(96, 3), peer)
    pyshmem.barrier_all()
    data = pyshmem.realloc(data, 4)
    print(data.sum(), keep.sum())
