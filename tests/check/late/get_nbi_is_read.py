# SPDX-License-Identifier: BSD-3-Clause
"""What a non-blocking get fetches is there behind quiet. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    data, out = pyshmem.full(8, job.my_pe + 1, np.int64), np.zeros(8, np.int64)
    pyshmem.barrier_all()
    pyshmem.get_nbi(out, data, 1 - job.my_pe)
    print(out.sum())
    pyshmem.quiet()
