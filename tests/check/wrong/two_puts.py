# SPDX-License-Identifier: BSD-3-Clause
"""Two puts that hope to arrive in order. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    right = (me + 1) % n
    data = pyshmem.zeros(8, np.int64)
    flag = pyshmem.new_signal()

    pyshmem.put(data, np.zeros(8, np.int64), right)  # <1>
    pyshmem.put(data, np.ones(8, np.int64), right)  # <2>
    pyshmem.barrier_all()
