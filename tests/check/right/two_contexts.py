# SPDX-License-Identifier: BSD-3-Clause
"""Each context completes its own puts, before the signals that tell of them. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    data, flags = pyshmem.zeros(8, np.int64), pyshmem.new_signal(2)
    source = pyshmem.full(8, me, np.int64)
    contexts = pyshmem.Context(), pyshmem.Context()
    for k, ctx in enumerate(contexts):
        pyshmem.put_nbi(data[4 * k :], source[4 * k : 4 * k + 4], 1 - me, ctx=ctx)
    for k in (1, 0):
        contexts[k].quiet()
        pyshmem.signal_set(flags[k:], 1, 1 - me)
    pyshmem.signal_wait_until(flags[1:], pyshmem.CMP_EQ, 1)
    assert data[7] == 1 - me
    pyshmem.signal_wait_until(flags, pyshmem.CMP_EQ, 1)
    assert (data == 1 - me).all()
    source[:] = 7
    pyshmem.barrier_all()
    for ctx in contexts:
        ctx.destroy()
