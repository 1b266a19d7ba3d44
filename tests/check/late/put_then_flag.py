# SPDX-License-Identifier: BSD-3-Clause
"""A flag by a plain put may overtake its data. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    data, flag = pyshmem.zeros(8, np.int64), pyshmem.zeros(1, np.int64)
    pyshmem.put(data, np.ones(8, np.int64), 1 - job.my_pe)
    pyshmem.p(flag, 1, 1 - job.my_pe)
    pyshmem.wait_until(flag, pyshmem.CMP_EQ, 1)
    print(data.sum())
