# SPDX-License-Identifier: BSD-3-Clause
"""The source of put_signal_nbi is filled for the next turn before quiet. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    peer = 1 - job.my_pe
    source, dest = pyshmem.zeros(256), pyshmem.zeros((3, 256))
    sig = pyshmem.zeros(1, np.uint64)
    for turn in range(3):
        source.fill(turn)  # <1>
        pyshmem.put_signal_nbi(dest[turn], source, sig, 1, pyshmem.SIGNAL_ADD, peer)  # <2>
    pyshmem.quiet()
    pyshmem.signal_wait_until(sig, pyshmem.CMP_EQ, 3)
