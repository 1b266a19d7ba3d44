# SPDX-License-Identifier: BSD-3-Clause
"""sync_nb orders, and completes no put. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    data = pyshmem.zeros(4, np.int64)
    pyshmem.put(data, np.arange(4), 1 - me)  # <1>
    pyshmem.sync_nb().wait()
    print(data[3])  # <2>
    pyshmem.barrier_all()
