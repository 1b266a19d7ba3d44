# SPDX-License-Identifier: BSD-3-Clause
"""Who leaves a broadcast knows of its root alone. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me = job.my_pe
    data = pyshmem.zeros(8, np.int64)
    flag = pyshmem.new_signal()

    value = pyshmem.zeros(1, np.int64)
    if me == 1:
        pyshmem.put(data, np.full(8, 5), 2)  # <1>
        pyshmem.quiet()
    pyshmem.broadcast(value, value, 0)
    if me == 2:
        print(data[0])  # <2>
    pyshmem.barrier_all()
