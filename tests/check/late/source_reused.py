# SPDX-License-Identifier: BSD-3-Clause
"""The source of a non-blocking put is in use until quiet. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    data, source = pyshmem.zeros(8, np.int64), pyshmem.zeros(8, np.int64)
    source[:] = 1
    pyshmem.put_nbi(data, source, 1 - job.my_pe)
    source[:] = 2
    pyshmem.barrier_all()
    print(data.sum())
