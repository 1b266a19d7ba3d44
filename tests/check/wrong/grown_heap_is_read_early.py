# SPDX-License-Identifier: BSD-3-Clause
"""A large array of a growing heap is read before its put is done. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    peer = 1 - job.my_pe
    big = pyshmem.zeros(1 << 20, np.int64)
    pyshmem.put(big[-8:], np.ones(8, np.int64), peer)  # <1>
    pyshmem.sync_all()
    print(big[-1])  # <2>
    pyshmem.barrier_all()
