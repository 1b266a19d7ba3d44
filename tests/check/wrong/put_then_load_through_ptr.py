# SPDX-License-Identifier: BSD-3-Clause
"""What was put is loaded through ``ptr``, where it need not have arrived. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me = job.my_pe
    box = pyshmem.zeros(4, np.int64)
    there = pyshmem.ptr(box, 1 - me)
    pyshmem.put(box, np.arange(4), 1 - me)  # <1>
    print(there.sum())  # <2>
    pyshmem.barrier_all()
