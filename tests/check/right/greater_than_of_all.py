# SPDX-License-Identifier: BSD-3-Clause
"""A wait for more than one signal of two, and both parts are there. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me = job.my_pe
    parts, flag = pyshmem.zeros((3, 4), np.int64), pyshmem.new_signal()
    if me:
        pyshmem.put_signal(parts[me], np.full(4, me), flag, 1, pyshmem.SIGNAL_ADD, 0)
    else:
        pyshmem.signal_wait_until(flag, pyshmem.CMP_GT, 1)
        print(parts[1].sum(), parts[2].sum())
    pyshmem.barrier_all()
