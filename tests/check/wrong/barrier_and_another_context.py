# SPDX-License-Identifier: BSD-3-Clause
"""barrier_all completes the default context; the put is on another one. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    data = pyshmem.zeros(4, np.int64)
    ctx = pyshmem.Context()
    pyshmem.put(data, np.arange(4), 1 - me, ctx=ctx)  # <1>
    pyshmem.barrier_all()
    print(data[3])  # <2>
    ctx.destroy()
