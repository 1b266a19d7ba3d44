# SPDX-License-Identifier: BSD-3-Clause
"""A fused operation reads what the neighbour has put, and nobody has waited for it. PEs: 2."""

import torch

import pyshmem
import pyshmem.fused as fused
import pyshmem.interop.torch as symmetric

with pyshmem.init(device="sim") as job:
    x = symmetric.zeros(4, 16, heap="device")
    pyshmem.put(x, torch.ones(4, 16), 1 - job.my_pe)  # <1>
    rows = fused.low_latency_all_gather(x)  # <2>
    print(rows.sum())
