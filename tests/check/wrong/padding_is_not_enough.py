# SPDX-License-Identifier: BSD-3-Clause
"""Records of 12 bytes are put to places of 8. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    data = pyshmem.zeros(8 * n + 8, np.uint8)
    if me < 2:
        pyshmem.put(data[8 * me : 8 * me + 12], np.full(12, me, np.uint8), 2)  # <1> <2>
    pyshmem.barrier_all()
