# SPDX-License-Identifier: BSD-3-Clause
"""The puts are of a context, the fence is of the default one. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    data, flag = pyshmem.zeros(8, np.int64), pyshmem.new_signal()
    ctx = pyshmem.Context()
    pyshmem.put(data, np.arange(8), 1 - me, ctx=ctx)  # <1>
    pyshmem.fence()
    pyshmem.signal_set(flag, 1, 1 - me, ctx=ctx)
    pyshmem.signal_wait_until(flag, pyshmem.CMP_EQ, 1)
    print(data[3])  # <2>
    pyshmem.barrier_all()
