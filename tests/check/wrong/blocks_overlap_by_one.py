# SPDX-License-Identifier: BSD-3-Clause
"""Blocks of two PEs lie three elements apart and are four long. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    table = pyshmem.zeros(32, np.int64)
    if me > 0:
        mine = np.full(8, me)
        pyshmem.ibput(table[3 * me :], mine, 0, bsize=4, dst=12, sst=4, nblocks=2)  # <1> <2>
    pyshmem.barrier_all()
