# SPDX-License-Identifier: BSD-3-Clause
"""A reduction on one PE meets a broadcast on the others, of a team of their own number. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    a, b = pyshmem.zeros(2, np.int64), pyshmem.zeros(2, np.int64)
    if job.my_pe == 1:
        pyshmem.sum_reduce(a, b)
    else:
        pyshmem.broadcast(a, b, root=0)

# Tells: collectives of 3 PEs part
# Tells: PE 0: broadcast at
# Tells: PE 1: sum_reduce at
