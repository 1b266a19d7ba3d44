# SPDX-License-Identifier: BSD-3-Clause
"""Nothing is between a put and its reading. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me = job.my_pe
    data = pyshmem.zeros(8, np.int64)
    flag = pyshmem.new_signal()

    if me == 0:
        pyshmem.put(data, np.full(8, 1), 1)  # <1>
        pyshmem.quiet()
    elif me == 1:
        print(data[2])  # <2>
    pyshmem.barrier_all()
