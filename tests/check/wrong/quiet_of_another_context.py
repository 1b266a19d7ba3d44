# SPDX-License-Identifier: BSD-3-Clause
"""quiet of a context completes what was issued on it, no more. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    right = (me + 1) % n
    data = pyshmem.zeros(8, np.int64)
    flag = pyshmem.new_signal()

    ctx = pyshmem.Context()
    pyshmem.put(data, np.full(8, 1), right)  # <1>
    ctx.quiet()
    pyshmem.sync_all()
    print(data[1])  # <2>
    pyshmem.barrier_all()
    ctx.destroy()
