# SPDX-License-Identifier: BSD-3-Clause
"""Each context is completed by its own quiet, before its own flag. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    peer = 1 - job.my_pe
    data, flags = pyshmem.zeros((2, 4), np.int64), pyshmem.zeros(2, np.uint64)
    one, two = pyshmem.Context(), pyshmem.Context()
    for turn in (1, 2):
        for k, ctx in enumerate((one, two)):
            pyshmem.put_nbi(data[k], np.full(4, 10 * k + turn), peer, ctx=ctx)
            ctx.quiet()
            pyshmem.signal_set(flags[k:], turn, peer, ctx=ctx)
        for k in (1, 0):
            pyshmem.signal_wait_until(flags[k:], pyshmem.CMP_GE, turn)
            print(data[k].sum())
        pyshmem.sync_all()
    one.destroy()
    two.destroy()
