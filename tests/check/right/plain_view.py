# SPDX-License-Identifier: BSD-3-Clause
"""A plain view that was made early is used behind the barrier. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    data = pyshmem.zeros(4, np.int64)
    view = np.asarray(data)
    pyshmem.put(data, np.arange(4), 1 - me)
    pyshmem.barrier_all()
    assert view.sum() == np.array(data).sum() == 6
