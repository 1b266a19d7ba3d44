# SPDX-License-Identifier: BSD-3-Clause
"""Making a lock is collective: it allocates for itself, which is no barrier of the program's. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    x = pyshmem.zeros(8, np.int64)
    pyshmem.put(x, np.arange(8), 1 - job.my_pe)  # <1>
    lock = pyshmem.Lock()
    print(x.sum())  # <2>
    with lock:
        pass
