# SPDX-License-Identifier: BSD-3-Clause
"""A row of a tensor on no heap is changed while it is being sent. PEs: 2."""

import torch
import torch.distributed as dist

import pyshmem
import pyshmem.interop.torch as symmetric

with pyshmem.init(device="sim") as job:
    symmetric.init_process_group()
    rows, found = torch.ones(4, 8), torch.zeros(8)
    work = dist.isend(rows[1], 1 - job.my_pe)  # <1>
    dist.recv(found, 1 - job.my_pe)
    rows[1:3] += found  # <2>
    work.wait()
    dist.destroy_process_group()
