# SPDX-License-Identifier: BSD-3-Clause
"""A broadcast reads its source while a neighbour still puts there. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    dest, source = pyshmem.zeros(4, np.int64), pyshmem.zeros(4, np.int64)
    if me == 1:
        pyshmem.put(source, np.full(4, 7), 0)  # <1>
        pyshmem.fence()
    pyshmem.broadcast(dest, source, root=0)  # <2>
    print(dest.sum())
