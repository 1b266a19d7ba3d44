# SPDX-License-Identifier: BSD-3-Clause
"""Torch's own calls of a group: gradients of DDP, functional collectives, objects. PEs: 2."""

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch.nn.parallel import DistributedDataParallel

import pyshmem
import pyshmem.interop.torch as symmetric

with pyshmem.init(device="sim") as job:
    symmetric.init_process_group()
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(8, 2))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    for turn in range(3):
        optimiser.zero_grad()
        model(torch.full((4, 8), 1.0 + job.my_pe + turn)).pow(2).mean().backward()
        optimiser.step()
    x = functional.all_reduce(torch.arange(6.0), "sum", dist.group.WORLD)
    assert (x + 1).sum() == 36
    objects = [None] * job.n_pes
    dist.all_gather_object(objects, {"pe": job.my_pe})
    assert [one["pe"] for one in objects] == [0, 1]
    dist.destroy_process_group()
