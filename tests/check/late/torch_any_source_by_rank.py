# SPDX-License-Identifier: BSD-3-Clause
"""Whose message comes first is nobody's promise: rank 2's may. PEs: 3."""

import torch
import torch.distributed as dist

import pyshmem
import pyshmem.interop.torch as symmetric

with pyshmem.init(device="sim") as job:
    symmetric.init_process_group()
    me, n = dist.get_rank(), dist.get_world_size()
    if me:
        dist.send(torch.full((1,), float(me)), 0)
    else:
        parts = torch.zeros(n - 1)
        for row in range(n - 1):
            dist.recv(parts[row : row + 1])
        print(*parts.tolist())
    dist.barrier()
    dist.destroy_process_group()
