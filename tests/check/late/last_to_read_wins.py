# SPDX-License-Identifier: BSD-3-Clause
"""A sum that is read and stored back loses what others add meanwhile. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    total = pyshmem.zeros(1, np.int64)
    for _ in range(4):
        pyshmem.p(total, pyshmem.g(total, 0) + 1, 0)
        pyshmem.quiet()
    pyshmem.barrier_all()
    print(pyshmem.g(total, 0))
