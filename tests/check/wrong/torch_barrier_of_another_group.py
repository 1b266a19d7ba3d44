# SPDX-License-Identifier: BSD-3-Clause
"""The group of PEs 0 and 1 says nothing of what PE 2 has put. PEs: 3."""

import torch
import torch.distributed as dist

import pyshmem
import pyshmem.interop.torch as symmetric

with pyshmem.init(device="sim") as job:
    me, n = job.my_pe, job.n_pes
    symmetric.init_process_group()
    pair = dist.new_group([0, 1])
    box = symmetric.zeros(4)
    if me == 2:
        pyshmem.put(box, torch.ones(4), 0)  # <1>
        pyshmem.quiet()
    else:
        dist.barrier(group=pair)
    if me == 0:
        print(box[1].item())  # <2>
    pyshmem.barrier_all()
    dist.destroy_process_group()
