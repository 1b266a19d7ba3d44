# SPDX-License-Identifier: BSD-3-Clause
"""A get of what was just put, without quiet. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    right = (me + 1) % n
    data = pyshmem.zeros(8, np.int64)
    flag = pyshmem.new_signal()

    pyshmem.put(data, np.full(8, me), right)  # <1>
    back = np.zeros(8, np.int64)
    pyshmem.get(back, data, right)  # <2>
    pyshmem.barrier_all()
