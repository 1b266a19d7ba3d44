# SPDX-License-Identifier: BSD-3-Clause
"""clear_lock completes the default context, and the put was on another one. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    lock, record = pyshmem.zeros(1, np.int64), pyshmem.zeros(4, np.int64)
    ctx = pyshmem.Context()
    for _ in range(2):
        pyshmem.set_lock(lock)
        row = np.zeros(4, np.int64)
        pyshmem.get(row, record, 0)  # <2>
        pyshmem.put(record, row + 1, 0, ctx=ctx)  # <1>
        pyshmem.clear_lock(lock)
    pyshmem.barrier_all()
    ctx.destroy()
