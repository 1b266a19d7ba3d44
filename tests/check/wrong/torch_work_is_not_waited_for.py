# SPDX-License-Identifier: BSD-3-Clause
"""The tensor of an all_reduce that has only begun is changed. PEs: 2."""

import torch.distributed as dist

import pyshmem
import pyshmem.interop.torch as symmetric

with pyshmem.init(device="sim") as job:
    symmetric.init_process_group()
    box = symmetric.zeros(4)
    work = dist.all_reduce(box, async_op=True)  # <1>
    box.add_(1)  # <2>
    work.wait()
    dist.destroy_process_group()
