# SPDX-License-Identifier: BSD-3-Clause
"""A fused operation completes no put of the program. PEs: 2."""

import torch

import pyshmem
import pyshmem.interop.torch as symmetric
from pyshmem import fused

with pyshmem.init(device="sim") as job:
    me, n = job.my_pe, job.n_pes
    x = symmetric.ones(4, 16)
    pyshmem.put(x, torch.zeros(4, 16), 1 - me)  # <1>
    fused.low_latency_all_gather(torch.ones(2, 8))
    print(x.sum())  # <2>
    pyshmem.barrier_all()
