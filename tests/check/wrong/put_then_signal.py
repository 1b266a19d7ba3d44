# SPDX-License-Identifier: BSD-3-Clause
"""A signal that is not ordered behind the put. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    right = (me + 1) % n
    data = pyshmem.zeros(8, np.int64)
    flag = pyshmem.new_signal()

    pyshmem.put(data, np.full(8, me + 1), right)  # <1>
    pyshmem.signal_set(flag, 1, right)
    pyshmem.signal_wait_until(flag, pyshmem.CMP_GE, 1)
    print(data.sum())  # <2>
    pyshmem.barrier_all()
