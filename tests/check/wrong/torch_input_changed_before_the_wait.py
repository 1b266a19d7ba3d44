# SPDX-License-Identifier: BSD-3-Clause
"""The input of a reduce_scatter is changed while it is under way. PEs: 2."""

import torch.distributed as dist

import pyshmem
import pyshmem.interop.torch as symmetric

with pyshmem.init(device="sim") as job:
    me, n = job.my_pe, job.n_pes
    symmetric.init_process_group()
    mine, out = symmetric.ones(8), symmetric.zeros(4)
    work = dist.reduce_scatter_tensor(out, mine, async_op=True)  # <1>
    mine.add_(1)  # <2>
    work.wait()
    dist.destroy_process_group()
