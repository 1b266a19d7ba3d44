# SPDX-License-Identifier: BSD-3-Clause
"""sync_all completes no put. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    right = (me + 1) % n
    data = pyshmem.zeros(8, np.int64)
    flag = pyshmem.new_signal()

    pyshmem.put(data, np.full(8, me), right)  # <1>
    pyshmem.sync_all()
    print(data[0])  # <2>
    pyshmem.barrier_all()
