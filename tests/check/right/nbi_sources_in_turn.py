# SPDX-License-Identifier: BSD-3-Clause
"""Non-blocking puts from two sources; each is filled again behind a quiet. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    peer = 1 - job.my_pe
    data = pyshmem.zeros((6, 4), np.int64)
    a, b = pyshmem.zeros(4, np.int64), pyshmem.zeros(4, np.int64)
    for k in range(0, 6, 2):
        a[:], b[:] = k, k + 1
        pyshmem.put_nbi(data[k], a, peer)
        pyshmem.put_nbi(data[k + 1], b, peer)
        print(a.sum())  # reading is fine
        pyshmem.quiet()
    pyshmem.sync_all()
    print(data.sum())
