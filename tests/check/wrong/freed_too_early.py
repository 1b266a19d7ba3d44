# SPDX-License-Identifier: BSD-3-Clause
"""A view of an array is used after the array was freed. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    data = pyshmem.zeros(16, np.int64)
    half = data[8:]
    pyshmem.free(data)  # <1>
    print(half[0])  # <2>
    pyshmem.barrier_all()
