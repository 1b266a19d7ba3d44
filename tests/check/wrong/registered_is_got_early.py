# SPDX-License-Identifier: BSD-3-Clause
"""A registered array is got from while its owner is put to. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me = job.my_pe
    mine, here = np.zeros(8, np.int64), np.zeros(8, np.int64)
    with pyshmem.register(mine):
        if me == 1:
            pyshmem.put(mine[2:6], np.ones(4, np.int64), 0)  # <1>
        elif me == 2:
            pyshmem.get(here, mine, 0)  # <2>
        pyshmem.barrier_all()
