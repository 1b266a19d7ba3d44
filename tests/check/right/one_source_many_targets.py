# SPDX-License-Identifier: BSD-3-Clause
"""One source of non-blocking puts to all others, reused behind a quiet; all read. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    source = pyshmem.zeros(64, np.float32)
    rows = pyshmem.zeros((n, 64), np.float32)
    come = pyshmem.zeros(n, np.uint64)
    for turn in range(3):
        source.fill(turn + me)
        for k in range(1, n):
            pe = (me + k) % n
            pyshmem.put_nbi(rows[me], source, pe)
        pyshmem.quiet()
        for k in range(1, n):
            pyshmem.signal_set(come[me:], turn + 1, (me + k) % n)
        others = [pe for pe in range(n) if pe != me]
        for pe in others:
            pyshmem.signal_wait_until(come[pe:], pyshmem.CMP_GE, turn + 1)
        assert [float(rows[pe].mean()) for pe in others] == [turn + pe for pe in others]
        pyshmem.sync_all()
