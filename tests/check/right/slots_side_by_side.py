# SPDX-License-Identifier: BSD-3-Clause
"""Each PE writes its own element of one word's neighbours. PEs: 4."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    bytes_ = pyshmem.zeros(8, np.uint8)
    pyshmem.p(bytes_[me:], me + 1, 0)
    pyshmem.barrier_all()
    assert me or list(bytes_[:n]) == list(range(1, n + 1))
    pyshmem.barrier_all()
