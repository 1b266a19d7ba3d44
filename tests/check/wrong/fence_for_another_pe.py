# SPDX-License-Identifier: BSD-3-Clause
"""A fence orders nothing between different PEs. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me = job.my_pe
    data = pyshmem.zeros(8, np.int64)
    flag = pyshmem.new_signal()

    if me == 0:
        pyshmem.put(data, np.full(8, 7), 1)  # <1>
        pyshmem.fence()
        pyshmem.signal_set(flag, 1, 2)
    elif me == 2:
        pyshmem.signal_wait_until(flag, pyshmem.CMP_EQ, 1)
        got = np.zeros(8, np.int64)
        pyshmem.get(got, data, 1)  # <2>
    pyshmem.barrier_all()
