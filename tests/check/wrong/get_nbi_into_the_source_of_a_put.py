# SPDX-License-Identifier: BSD-3-Clause
"""A row is being fetched, and is put on before quiet. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    row, there = pyshmem.zeros(8, np.int64), pyshmem.ones(8, np.int64)
    out = pyshmem.zeros(8, np.int64)
    pyshmem.get_nbi(row, there, (me + 1) % n)  # <1>
    pyshmem.put(out, row, (me + 2) % n)  # <2>
    pyshmem.barrier_all()
