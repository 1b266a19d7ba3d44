# SPDX-License-Identifier: BSD-3-Clause
"""An old view is read when its array has been made larger. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    data = pyshmem.zeros(64, np.int64)
    part = data[8:16]
    keep = pyshmem.zeros(8, np.int64)
    data = pyshmem.realloc(data, 4096)  # <1>
    print(part.sum())  # <2>
    keep[:] = 1
    pyshmem.barrier_all()
