# SPDX-License-Identifier: BSD-3-Clause
"""An add that fetches nothing is not there when a barrier of the program's own says so. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, other = job.my_pe, 1 - job.my_pe
    count = pyshmem.zeros(1, np.int64)
    pyshmem.atomic_add(count, 5, other)
    pyshmem.sync_all()
    print(pyshmem.atomic_fetch(count, me))
