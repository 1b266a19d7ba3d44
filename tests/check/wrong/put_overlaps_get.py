# SPDX-License-Identifier: BSD-3-Clause
"""One PE gets a region while another one puts to a part of it. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    region = pyshmem.zeros(32, np.int64)
    local = np.zeros(16, np.int64)
    if job.my_pe == 1:
        pyshmem.get(local, region[8:], 0)  # <1>
    if job.my_pe == 2:
        pyshmem.put(region[20:], np.ones(8, np.int64), 0)  # <2>
    pyshmem.barrier_all()
