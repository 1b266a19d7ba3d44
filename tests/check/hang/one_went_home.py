# SPDX-License-Identifier: BSD-3-Clause
"""A counter that one PE of three does not raise: it is already at the end. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    count = pyshmem.zeros(1, np.int64)
    if job.my_pe == 1:
        pyshmem.atomic_inc(count, 0)
    if job.my_pe == 0:
        pyshmem.wait_until(count, pyshmem.CMP_EQ, 2)
# Tells: waits for count[0] == 2, which is 1; PE 1 has changed it before
# Tells: PE 1 went another way: PE 0 waits for it, and it has ended its job
