# SPDX-License-Identifier: BSD-3-Clause
"""Not equal to zero says one chunk is there, and all are read. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    peer = 1 - job.my_pe
    data, flag = pyshmem.zeros(12, np.int64), pyshmem.new_signal()
    for k in range(3):
        part = data[4 * k : 4 * k + 4]
        pyshmem.put_signal(part, np.full(4, k), flag, 1, pyshmem.SIGNAL_ADD, peer)  # <1>
    pyshmem.signal_wait_until(flag, pyshmem.CMP_NE, 0)
    print(data[8])  # <2>
    pyshmem.barrier_all()
