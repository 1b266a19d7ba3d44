# SPDX-License-Identifier: BSD-3-Clause
"""Two PEs write to the same elements of a third. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me = job.my_pe
    data = pyshmem.zeros(8, np.int64)
    flag = pyshmem.new_signal()

    if me > 0:
        pyshmem.put(data, np.full(8, me), 0)  # <1> <2>
    pyshmem.barrier_all()
