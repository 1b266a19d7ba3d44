# SPDX-License-Identifier: BSD-3-Clause
"""Two locks that two PEs take in different orders. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    locks = pyshmem.zeros(2, np.int64)
    pyshmem.set_lock(locks[job.my_pe :])
    pyshmem.sync_all()
    pyshmem.set_lock(locks[1 - job.my_pe :])

# Tells: waits for the lock locks[1], which PE 1 holds
# Tells: waits for the lock locks[0], which PE 0 holds
# Tells: a cycle: PE 0 for PE 1, PE 1 for PE 0
