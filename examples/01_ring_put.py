# SPDX-License-Identifier: BSD-3-Clause
"""Pass an array around the ring, a hop at a time, until it is back.

You learn: put, and why a barrier stands between writing a neighbour's array and reading one's own.
Run: python -m pyshmem run -n 4 examples/01_ring_put.py
Output: ok
"""

import numpy as np

import pyshmem

with pyshmem.init() as job:
    right = (job.my_pe + 1) % job.n_pes
    mine = pyshmem.full(1000, job.my_pe, dtype=np.float64)
    arrived = pyshmem.empty_like(mine)

    for hop in range(job.n_pes):
        pyshmem.barrier_all()  # nobody reads `arrived` any more
        pyshmem.put(arrived, mine, right)
        pyshmem.barrier_all()  # everybody's put is complete
        mine[:] = arrived
        assert (mine == (job.my_pe - hop - 1) % job.n_pes).all()

    assert (mine == job.my_pe).all()  # after n_pes hops the ring is closed
    if job.my_pe == 0:
        print("ok")
