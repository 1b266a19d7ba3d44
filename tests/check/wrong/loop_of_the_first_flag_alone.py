# SPDX-License-Identifier: BSD-3-Clause
"""A loop of tests for the first flag, and the second message is read. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    peer = 1 - job.my_pe
    data, flags = pyshmem.zeros((2, 4), np.int64), pyshmem.zeros(2, np.uint64)
    for k in range(2):
        pyshmem.put_signal(  # <1>
            data[k], np.full(4, k + 1), flags[k:], 1, pyshmem.SIGNAL_SET, peer
        )
    while not pyshmem.test(flags[:1], pyshmem.CMP_EQ, 1):
        pass
    print(data[1].sum())  # <2>
    pyshmem.barrier_all()
