# SPDX-License-Identifier: BSD-3-Clause
"""Elements of two bytes of three PEs lie between each other, each with its flag. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    table, flags = pyshmem.zeros(12, np.int16), pyshmem.new_signal(n)
    for pe in range(n):
        pyshmem.iput(table[me:], np.full(4, me, np.int16), pe, dst=3)
        pyshmem.fence()
        pyshmem.signal_set(flags[me:], 1, pe)
    for pe in range(n):
        pyshmem.signal_wait_until(flags[pe:], pyshmem.CMP_EQ, 1)
        assert (table[pe::3] == pe).all()
    pyshmem.barrier_all()
