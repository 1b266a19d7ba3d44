# SPDX-License-Identifier: BSD-3-Clause
"""A view of a freed array is used, whose memory another array has by now. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    data = pyshmem.zeros(16, np.int64)
    half = data[8:]
    pyshmem.free(data)  # <1>
    other = pyshmem.zeros(16, np.int64)
    half[:4].view()[0] = 3  # <2>
    print(other.sum())
    pyshmem.barrier_all()
