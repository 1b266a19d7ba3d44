# SPDX-License-Identifier: BSD-3-Clause
"""A ticket says where to write, and a plain count says that it is written. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    queue, tail, ready = (
        pyshmem.zeros(4, np.int64),
        pyshmem.zeros(1, np.int64),
        pyshmem.zeros(1, np.int64),
    )
    if me:
        at = int(pyshmem.atomic_fetch_inc(tail, 0))
        pyshmem.p(queue[at:], 10 + me, 0)  # <1>
        pyshmem.fence()
        pyshmem.atomic_inc(ready, 0)
    else:
        pyshmem.wait_until(ready, pyshmem.CMP_GE, 1)
        print(queue[0])  # <2>
    pyshmem.barrier_all()
