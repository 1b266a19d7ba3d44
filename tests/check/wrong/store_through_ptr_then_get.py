# SPDX-License-Identifier: BSD-3-Clause
"""What was stored through ``ptr`` is fetched by ``get`` without a ``quiet``. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me = job.my_pe
    box, mine = pyshmem.zeros(4, np.int64), np.zeros(4, np.int64)
    pyshmem.ptr(box, 1 - me)[:] = 5  # <1>
    pyshmem.get(mine, box, 1 - me)  # <2>
    pyshmem.barrier_all()
