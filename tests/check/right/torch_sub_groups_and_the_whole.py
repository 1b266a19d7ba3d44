# SPDX-License-Identifier: BSD-3-Clause
"""A pair works by its group, then all by theirs; each result is read behind its wait. PEs: 3."""

import torch.distributed as dist

import pyshmem
import pyshmem.interop.torch as symmetric

with pyshmem.init(device="sim") as job:
    me, n = job.my_pe, job.n_pes
    symmetric.init_process_group()
    pair = dist.new_group([0, 1])
    box, all_ = symmetric.ones(4), symmetric.zeros(12)
    if me < 2:
        dist.all_reduce(box, group=pair)
        assert box[0].item() == 2
    work = dist.all_gather_into_tensor(all_, box, async_op=True)
    work.wait()
    box.zero_()
    assert all_.sum().item() == 20
    dist.barrier()
    dist.destroy_process_group()
