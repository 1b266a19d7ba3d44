# SPDX-License-Identifier: BSD-3-Clause
"""A reduction on a stream of one PE, against a barrier of the other's host. PEs: 2, with sim."""

import numpy as np

import pyshmem

with pyshmem.init(device="sim") as job:
    total = pyshmem.zeros(4, np.float32, heap="device")
    part = pyshmem.ones(4, np.float32, heap="device")
    stream = pyshmem.streams.Stream()
    if job.my_pe == 0:
        pyshmem.sum_reduce(total, part, stream=stream)
        stream.synchronize()
    pyshmem.barrier_all()
    if job.my_pe == 1:
        pyshmem.sum_reduce(total, part, stream=stream)
# Tells: PE 0, stream 1: sum_reduce at
# Tells: waits for PE 1, not there
# Tells: PE 1: barrier_all at
# Tells: waits for PE 0, not there
# Tells: a cycle: PE 0 for PE 1, PE 1 for PE 0
