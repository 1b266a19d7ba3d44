# SPDX-License-Identifier: BSD-3-Clause
"""Slots by tickets of an atomic counter. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    count, slots = pyshmem.zeros(1, np.int64), pyshmem.zeros(4 * n, np.int64)
    for _ in range(4):
        ticket = pyshmem.atomic_fetch_inc(count, 0)
        pyshmem.p(slots[ticket:], me + 1, 0)
    pyshmem.barrier_all()
    assert me or slots.min() > 0
    pyshmem.barrier_all()
