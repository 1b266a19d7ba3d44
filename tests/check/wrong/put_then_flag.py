# SPDX-License-Identifier: BSD-3-Clause
"""A flag by a plain put, without a fence behind the data. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    right = (me + 1) % n
    data = pyshmem.zeros(8, np.int64)
    flag = pyshmem.new_signal()

    pyshmem.put(data, np.full(8, me + 1), right)  # <1>
    pyshmem.p(flag, 1, right)
    pyshmem.wait_until(flag, pyshmem.CMP_EQ, 1)
    assert data[7] >= 0  # <2>
    pyshmem.barrier_all()
