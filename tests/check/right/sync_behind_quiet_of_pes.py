# SPDX-License-Identifier: BSD-3-Clause
"""A quiet of one PE, and a sync, where only that PE reads. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    right = (me + 1) % n
    data = pyshmem.zeros(4, np.int64)
    pyshmem.put_nbi(data, np.full(4, me), right)
    pyshmem.pe_quiet([right])
    pyshmem.sync_all()
    print(*data)
