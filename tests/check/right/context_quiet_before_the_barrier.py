# SPDX-License-Identifier: BSD-3-Clause
"""Contexts by quiet or their end, then a barrier; one context for a block. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    data = pyshmem.zeros((2, 4), np.int64)
    ctx = pyshmem.Context()
    pyshmem.put_nbi(data[0], np.full(4, me), (me + 1) % n, ctx=ctx)
    with pyshmem.Context() as other:
        pyshmem.put_nbi(data[1], np.full(4, me), (me + 1) % n, ctx=other)
    ctx.quiet()
    pyshmem.barrier_all()
    assert (data == (me - 1) % n).all()
    pyshmem.barrier_all()
    pyshmem.put(data[0], np.zeros(4, np.int64), (me + 1) % n, ctx=ctx)
    ctx.destroy()
    pyshmem.barrier_all()
    assert data[0].sum() == 0
