# SPDX-License-Identifier: BSD-3-Clause
"""Two PEs put to one part of a registered array, and nothing orders them. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    mine = np.zeros(8, np.int64)
    held = pyshmem.register(mine)
    if job.my_pe == 1:
        pyshmem.put(mine[:6], np.ones(6, np.int64), 0)  # <1>
    elif job.my_pe == 2:
        pyshmem.put(mine[4:], np.ones(4, np.int64), 0)  # <2>
    pyshmem.unregister(held)
