# SPDX-License-Identifier: BSD-3-Clause
"""A sum over an array of which one half was never written. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    data = pyshmem.empty(16, np.int64)  # <1>
    data[:8] = np.arange(8)
    print(data.sum())  # <2>
