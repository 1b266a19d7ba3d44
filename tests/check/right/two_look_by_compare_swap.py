# SPDX-License-Identifier: BSD-3-Clause
"""Two PEs poll one counter by a compare-and-swap that puts back what it finds. PEs: 4."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me = job.my_pe
    data, count = pyshmem.zeros((2, 4), np.int64), pyshmem.zeros(1, np.int64)
    if me < 2:
        pyshmem.put(data[me], np.arange(4) + me, 2)
        pyshmem.fence()
        pyshmem.atomic_inc(count, 2)
    else:
        while pyshmem.atomic_compare_swap(count, 2, 2, 2) != 2:
            pass
        found = np.zeros((2, 4), np.int64)
        pyshmem.get(found, data, 2)
        assert (found[1] - found[0] == 1).all()
