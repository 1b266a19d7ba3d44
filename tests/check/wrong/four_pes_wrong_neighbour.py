# SPDX-License-Identifier: BSD-3-Clause
"""Each waits for the signal of its left neighbour and reads what the right one has put. PEs: 4."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    halo = pyshmem.zeros((2, 4), np.float32)
    sig = pyshmem.zeros(2, np.uint64)
    edge = np.full(4, me, np.float32)
    pyshmem.put_signal(halo[0], edge, sig, 1, pyshmem.SIGNAL_SET, (me + 1) % n)
    pyshmem.put_signal(halo[1], edge, sig[1:], 1, pyshmem.SIGNAL_SET, (me - 1) % n)  # <1>
    pyshmem.signal_wait_until(sig, pyshmem.CMP_EQ, 1)
    print(halo[0].sum() + halo[1].sum())  # <2>
    pyshmem.signal_wait_until(sig[1:], pyshmem.CMP_EQ, 1)
    pyshmem.barrier_all()
