# SPDX-License-Identifier: BSD-3-Clause
"""A process group orders one-sided calls: an all_reduce behind a quiet, a send, a request. PEs: 2."""

import torch
import torch.distributed as dist

import pyshmem
import pyshmem.interop.torch as symmetric

with pyshmem.init(device="sim") as job:
    symmetric.init_process_group()
    peer = 1 - job.my_pe
    box = symmetric.zeros(4)
    seen = torch.zeros(1)
    pyshmem.put(box, torch.full((4,), 1.0), peer)
    pyshmem.quiet()
    dist.all_reduce(seen)
    print(box.sum().item())
    dist.barrier()
    if job.my_pe == 0:
        pyshmem.put(box, torch.full((4,), 2.0), peer)
        pyshmem.quiet()
        dist.send(seen, 1)
    else:
        dist.recv(seen, 0)
        print(box[2].item())
    work = dist.all_reduce(box, async_op=True)
    other = torch.ones(4) * 3
    work.wait()
    print((box + other).tolist())
    dist.broadcast(box, 0)
    print(box.mean())
    dist.destroy_process_group()
