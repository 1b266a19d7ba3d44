# SPDX-License-Identifier: BSD-3-Clause
"""What has come by get, and by a collective, nobody has written. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    data, all_data = pyshmem.empty(4, np.float32), pyshmem.empty(8, np.float32)  # <1>
    local = np.zeros(4, np.float32)
    pyshmem.get(local, data, 1 - job.my_pe)
    print(pyshmem.g(data[3:], 1 - job.my_pe))
    pyshmem.fcollect(all_data, data)
    print(all_data[5])  # <2>
