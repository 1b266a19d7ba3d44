# SPDX-License-Identifier: BSD-3-Clause
"""A tensor of a collective is read before its work has been waited for. PEs: 2."""

import torch.distributed as dist

import pyshmem
import pyshmem.interop.torch as symmetric

with pyshmem.init(device="none") as job:
    symmetric.init_process_group()
    box = symmetric.ones(4)
    work = dist.all_reduce(box, async_op=True)
    print(box.sum().item())
    work.wait()
    dist.destroy_process_group()
