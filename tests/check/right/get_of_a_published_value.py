# SPDX-License-Identifier: BSD-3-Clause
"""The owner stores, then sets its own flag; the reader fetches the flag by atomics and gets. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    table = pyshmem.zeros(32, np.int32)
    ready = pyshmem.zeros(1, np.int64)
    if job.my_pe == 0:
        table[:] = np.arange(32)
        pyshmem.quiet()
        pyshmem.atomic_set(ready, 1, 0)
    else:
        while pyshmem.atomic_fetch(ready, 0) != 1:
            pass
        copy = np.zeros(32, np.int32)
        pyshmem.get(copy, table, 0)
        assert copy[31] == 31
        assert pyshmem.g(table[5:], 0) == 5
    pyshmem.barrier_all()
