# SPDX-License-Identifier: BSD-3-Clause
"""From any source by tags, in another order than they are sent, beside one of a rank. PEs: 2."""

import torch
import torch.distributed as dist

import pyshmem
import pyshmem.interop.torch as symmetric

with pyshmem.init(device="sim") as job:
    symmetric.init_process_group()
    me = dist.get_rank()
    a, b, c = symmetric.zeros(2), symmetric.zeros(2), symmetric.zeros(2)
    if me:
        for tag, tensor in enumerate((a, b, c)):
            tensor.fill_(tag + 1)
        works = [dist.isend(tensor, 0, tag=tag) for tag, tensor in enumerate((a, b, c))]
        for work in works:
            work.wait()
        a.fill_(9)  # only its own
    else:
        dist.recv(c, tag=2)  # from any source: the two before are kept
        dist.recv(b, tag=1)
        assert dist.recv(a, 1, tag=0) == 1
        print(*torch.cat((a, b, c)).tolist())
        assert (a[0].item(), b[0].item(), c[0].item()) == (1, 2, 3)
    dist.barrier()
    dist.destroy_process_group()
