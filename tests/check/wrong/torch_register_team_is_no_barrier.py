# SPDX-License-Identifier: BSD-3-Clause
"""Staging memory of operators is the library's own: to allocate it is no barrier. PEs: 2."""

import torch

import pyshmem
import pyshmem.interop.torch as symmetric

with pyshmem.init(device="none") as job:
    x = symmetric.ones(4, 16)
    pyshmem.put(x, torch.zeros(4, 16), 1 - job.my_pe)  # <1>
    symmetric.register_team(pyshmem.TEAM_WORLD, staging="1M")
    print(x.sum())  # <2>
    pyshmem.barrier_all()
