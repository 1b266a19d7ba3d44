# SPDX-License-Identifier: BSD-3-Clause
"""An all-to-all of other counts for each pair: counts first, then puts to places. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    counts = pyshmem.zeros(n * n, np.int64)
    mine = pyshmem.zeros(n, np.int64)
    mine[:] = np.arange(n) + me
    pyshmem.fcollect(counts, mine)
    table = np.array(counts).reshape(n, n)
    out = pyshmem.zeros(64, np.int64)
    for pe in range(n):
        off = int(table[:me, pe].sum())
        if table[me, pe]:
            pyshmem.put_nbi(out[off:], np.full(int(table[me, pe]), me), pe)
    pyshmem.barrier_all()
    assert (out[: int(table[:, me].sum())] >= 0).all()
