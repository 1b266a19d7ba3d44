# SPDX-License-Identifier: BSD-3-Clause
"""A tensor that is being sent is changed before its work has been waited for. PEs: 2."""

import torch
import torch.distributed as dist

import pyshmem
import pyshmem.interop.torch as symmetric

with pyshmem.init(device="none") as job:
    symmetric.init_process_group()
    source, found = torch.ones(4), torch.zeros(4)
    work = dist.isend(source, 1 - job.my_pe)
    source.fill_(2)
    dist.recv(found, 1 - job.my_pe)
    print(found.sum().item())
    work.wait()
    dist.destroy_process_group()
