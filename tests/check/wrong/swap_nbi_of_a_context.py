# SPDX-License-Identifier: BSD-3-Clause
"""What a swap of a context fetches is read behind the quiet of the default one. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    word, old = pyshmem.full(1, 7, np.int64), pyshmem.zeros(1, np.int64)
    ctx = pyshmem.Context()
    pyshmem.barrier_all()
    pyshmem.atomic_swap_nbi(old, word, me, 1 - me, ctx=ctx)  # <1>
    pyshmem.quiet()
    print(old[0])  # <2>
    ctx.quiet()
    pyshmem.barrier_all()
    ctx.destroy()
