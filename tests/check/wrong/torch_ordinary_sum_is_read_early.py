# SPDX-License-Identifier: BSD-3-Clause
"""A tensor on no heap is read before the work that sums it is waited for. PEs: 2."""

import torch
import torch.distributed as dist

import pyshmem
import pyshmem.interop.torch as symmetric

with pyshmem.init(device="sim"):
    symmetric.init_process_group()
    gradient = torch.ones(64)
    work = dist.all_reduce(gradient, async_op=True)  # <1>
    print(gradient.sum())  # <2>
    work.wait()
    dist.destroy_process_group()
