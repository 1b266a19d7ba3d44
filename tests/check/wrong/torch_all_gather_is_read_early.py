# SPDX-License-Identifier: BSD-3-Clause
"""The gathered tensor is read before its work is waited for. PEs: 2."""

import torch.distributed as dist

import pyshmem
import pyshmem.interop.torch as symmetric

with pyshmem.init(device="sim") as job:
    me, n = job.my_pe, job.n_pes
    symmetric.init_process_group()
    mine, all_ = symmetric.ones(4), symmetric.zeros(8)
    work = dist.all_gather_into_tensor(all_, mine, async_op=True)  # <1>
    print(all_.sum().item())  # <2>
    work.wait()
    dist.destroy_process_group()
