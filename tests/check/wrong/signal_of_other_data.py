# SPDX-License-Identifier: BSD-3-Clause
"""A signal proves its own data only. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me = job.my_pe
    data = pyshmem.zeros(8, np.int64)
    flag = pyshmem.new_signal()

    other = pyshmem.zeros(4, np.int64)
    if me == 0:
        pyshmem.put(other, np.full(4, 3), 1)  # <1>
        pyshmem.put_signal(data, np.full(8, 3), flag, 1, pyshmem.SIGNAL_SET, 1)
    elif me == 1:
        pyshmem.signal_wait_until(flag, pyshmem.CMP_EQ, 1)
        print(other[0])  # <2>
    pyshmem.barrier_all()
