# SPDX-License-Identifier: BSD-3-Clause
"""A counter that all add to is read by g. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    count = pyshmem.zeros(1, np.int64)
    pyshmem.atomic_inc(count, 0)  # <1>
    print(pyshmem.g(count, 0))  # <2>
    pyshmem.barrier_all()
