# SPDX-License-Identifier: BSD-3-Clause
"""One of the tensors that are gathered into, on no heap, is read before the wait. PEs: 2."""

import torch
import torch.distributed as dist

import pyshmem
import pyshmem.interop.torch as symmetric

with pyshmem.init(device="sim"):
    symmetric.init_process_group()
    all_ = [torch.zeros(8) for _ in range(2)]
    work = dist.all_gather(all_, torch.ones(8), async_op=True)  # <1>
    print(all_[1].sum())  # <2>
    work.wait()
    dist.destroy_process_group()
