# SPDX-License-Identifier: BSD-3-Clause
"""A broadcast tells the root nothing: it may put while the others still read. PEs: 2."""

import torch
import torch.distributed as dist

import pyshmem
import pyshmem.interop.torch as symmetric

with pyshmem.init(device="sim") as job:
    symmetric.init_process_group()
    box = symmetric.zeros(4)
    if job.my_pe == 1:
        print(box.sum())  # <1>
    dist.broadcast(torch.zeros(1), 0)
    if job.my_pe == 0:
        pyshmem.put(box, torch.ones(4), 1)  # <2>
    pyshmem.barrier_all()
    dist.destroy_process_group()
