# SPDX-License-Identifier: BSD-3-Clause
"""A flag through another context passes the data's fence. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, other = job.my_pe, 1 - job.my_pe
    data, sig = pyshmem.zeros(4, np.int64), pyshmem.new_signal()
    ctx = pyshmem.TEAM_WORLD.create_ctx()
    pyshmem.put(data, np.ones(4, np.int64), other)
    pyshmem.fence()
    pyshmem.signal_set(sig, 1, other, ctx=ctx)
    pyshmem.signal_wait_until(sig, pyshmem.CMP_EQ, 1)
    print(data.sum())
    pyshmem.barrier_all()
    ctx.destroy()
