# SPDX-License-Identifier: BSD-3-Clause
"""What was put is read before the barrier's request is waited for. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    data = pyshmem.zeros(4, np.int64)
    pyshmem.put(data, np.arange(4), 1 - me)  # <1>
    request = pyshmem.barrier_nb()
    print(data[3])  # <2>
    request.wait()
    pyshmem.barrier_all()
