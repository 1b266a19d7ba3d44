# SPDX-License-Identifier: BSD-3-Clause
"""Of two puts to one place the first may arrive last. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    data = pyshmem.zeros(8, np.int64)
    for value in (1, 2):
        pyshmem.put(data, np.full(8, value), 1 - job.my_pe)
    pyshmem.barrier_all()
    print(data.sum())
