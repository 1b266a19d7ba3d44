# SPDX-License-Identifier: BSD-3-Clause
"""Sources on no heap, filled anew behind quiet, their context's, or when the peer has them. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, peer = job.my_pe, 1 - job.my_pe
    rows, seen = pyshmem.zeros((4, 4)), pyshmem.zeros(4)
    there, taken = pyshmem.new_signal(), pyshmem.new_signal()
    source = np.ones(4)
    pyshmem.put_nbi(rows[0], source, peer)
    pyshmem.quiet()
    source[:] = 2
    context = pyshmem.TEAM_WORLD.create_ctx()
    pyshmem.put_nbi(rows[1], source, peer, ctx=context)
    context.quiet()
    source += 1
    pyshmem.put_nbi(rows[2], source[:2], peer)
    source[2:] = 7  # what is not sent
    pyshmem.put_nbi(rows[2][2:], np.full(2, 3.0), peer)  # nobody else has it
    pyshmem.barrier_all()
    source[:] = 4
    pyshmem.put_signal_nbi(rows[3], source, there, 1, pyshmem.SIGNAL_SET, peer)
    pyshmem.signal_wait_until(there, pyshmem.CMP_EQ, 1)
    seen[:] = rows[3]
    pyshmem.signal_set(taken, 1, peer)
    pyshmem.signal_wait_until(taken, pyshmem.CMP_EQ, 1)
    source[:] = 5  # the peer has it: it has been read
    pyshmem.barrier_all()
    assert [seen.tolist(), rows[2].tolist()] == [[4] * 4, [3] * 4], (seen, rows)
    context.destroy()
