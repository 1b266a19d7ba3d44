# SPDX-License-Identifier: BSD-3-Clause
"""It waits for one of two PEs, and reads what both sent. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me = job.my_pe
    data = pyshmem.zeros(8, np.int64)
    flag = pyshmem.new_signal()

    if me > 0:
        part = data[4 * me - 4 : 4 * me]
        pyshmem.put_signal(part, np.full(4, me), flag, 1, pyshmem.SIGNAL_ADD, 0)  # <1>
    else:
        pyshmem.signal_wait_until(flag, pyshmem.CMP_GE, 1)
        print(data.sum())  # <2>
    pyshmem.barrier_all()
