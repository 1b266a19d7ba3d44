# SPDX-License-Identifier: BSD-3-Clause
"""Each stream sends, and waits for what the other one of the peer has sent. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="sim") as job:
    me, n = job.my_pe, job.n_pes
    a, b, src = (pyshmem.zeros(4, np.int64, heap="device") for _ in range(3))
    fa, fb = (pyshmem.new_signal(heap="device") for _ in range(2))
    one, two = pyshmem.streams.Stream(), pyshmem.streams.Stream()
    for turn in (1, 2):
        pyshmem.put_signal(a, src, fa, turn, pyshmem.SIGNAL_SET, 1 - me, stream=one)
        pyshmem.put_signal(b, src, fb, turn, pyshmem.SIGNAL_SET, 1 - me, stream=two)
        pyshmem.signal_wait_until(fb, pyshmem.CMP_GE, turn, stream=one)
        pyshmem.signal_wait_until(fa, pyshmem.CMP_GE, turn, stream=two)
        one.synchronize()
        assert b[0] == turn - 1
        two.synchronize()
        assert a[0] == turn - 1
        src[:] = turn
        pyshmem.barrier_all()
