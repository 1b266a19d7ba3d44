# SPDX-License-Identifier: BSD-3-Clause
"""iput and iget of even and odd elements beside each other. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    peer = 1 - job.my_pe
    data, mine = pyshmem.zeros(16, np.int32), np.zeros(8, np.int32)
    pyshmem.iput(data, np.arange(8, dtype=np.int32), peer, dst=2)
    pyshmem.iget(mine, data[1:], peer, sst=2, nelems=8)
    print(mine.sum(), data[1::2].sum())
    pyshmem.barrier_all()
    print(data[::2].sum())
