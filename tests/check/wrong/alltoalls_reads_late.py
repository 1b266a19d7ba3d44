# SPDX-License-Identifier: BSD-3-Clause
"""The source of alltoalls is put to by a neighbour who has not waited. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    n = job.n_pes
    source, dest = pyshmem.zeros(4 * n, np.int64), pyshmem.zeros(4 * n, np.int64)
    pyshmem.p(source[2:], 5, 1 - job.my_pe)  # <1>
    pyshmem.alltoalls(dest, source, dst=2, sst=2, nelems=2)  # <2>
    pyshmem.barrier_all()
