# SPDX-License-Identifier: BSD-3-Clause
"""np.array copies before the data is there. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    data = pyshmem.zeros(8, np.int64)
    pyshmem.put(data, np.arange(8), 1 - me)  # <1>
    pyshmem.quiet()
    print(np.array(data))  # <2>
    pyshmem.barrier_all()
