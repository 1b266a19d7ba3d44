# SPDX-License-Identifier: BSD-3-Clause
"""Registering an array lets others reach that one, and says nothing of other puts. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    x = pyshmem.zeros(8, np.int64)
    pyshmem.put(x, np.arange(8), 1 - job.my_pe)  # <1>
    pyshmem.quiet()
    held = pyshmem.register(np.zeros(4))
    print(x.sum())  # <2>
    pyshmem.unregister(held)
