# SPDX-License-Identifier: BSD-3-Clause
"""A counting semaphore that goes up and down, and a slot for each holder. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    room, slots = pyshmem.full(1, 1, np.int64), pyshmem.zeros(1, np.int64)
    pyshmem.barrier_all()
    for _ in range(3):
        while int(pyshmem.atomic_fetch_add(room, -1, 0)) < 1:
            pyshmem.atomic_add(room, 1, 0)
            pyshmem.quiet()
        old = int(pyshmem.g(slots, 0))
        pyshmem.p(slots, old + 1, 0)
        pyshmem.quiet()
        pyshmem.atomic_add(room, 1, 0)
        pyshmem.quiet()
    pyshmem.barrier_all()
    if me == 0:
        assert slots[0] == 9
