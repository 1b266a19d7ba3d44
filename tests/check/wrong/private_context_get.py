# SPDX-License-Identifier: BSD-3-Clause
"""get_nbi of a private context, quiet of another one. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    data, here = pyshmem.full(4, 3, np.int64), pyshmem.zeros(4, np.int64)
    one, two = pyshmem.Context(pyshmem.CTX_PRIVATE), pyshmem.Context(pyshmem.CTX_PRIVATE)
    pyshmem.barrier_all()
    pyshmem.get_nbi(here, data, 1 - me, ctx=one)  # <1>
    two.quiet()
    print(here.sum())  # <2>
    one.quiet()
    pyshmem.barrier_all()
    one.destroy()
    two.destroy()
