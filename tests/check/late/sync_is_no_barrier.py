# SPDX-License-Identifier: BSD-3-Clause
"""sync_all does not complete puts. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    data = pyshmem.zeros(8, np.int64)
    pyshmem.put(data, np.ones(8, np.int64), 1 - job.my_pe)
    pyshmem.sync_all()
    print(data.sum())
