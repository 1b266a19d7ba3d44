# SPDX-License-Identifier: BSD-3-Clause
"""An all_reduce of the process group completes no put. PEs: 2."""

import torch
import torch.distributed as dist

import pyshmem
import pyshmem.interop.torch as symmetric

with pyshmem.init(device="sim") as job:
    symmetric.init_process_group()
    box = symmetric.zeros(4)
    pyshmem.put(box, torch.full((4,), 1.0), 1 - job.my_pe)  # <1>
    dist.all_reduce(torch.zeros(1))
    print(box.sum().item())  # <2>
    dist.destroy_process_group()
