# SPDX-License-Identifier: BSD-3-Clause
"""Tensors on no heap: other rows meanwhile, sums waited for, looked at, by a future, dropped. PEs: 2."""

import torch
import torch.distributed as dist

import pyshmem
import pyshmem.interop.torch as symmetric

with pyshmem.init(device="sim") as job:
    symmetric.init_process_group()
    peer = 1 - job.my_pe
    x = torch.ones(4, 4)
    first = dist.all_reduce(x[:2], async_op=True)
    x[2:] *= 2
    second = dist.all_reduce(x[2:], async_op=True)
    first.wait()
    x[:2] += 1
    assert x[0].sum() == 12
    second.wait()
    parts = [torch.zeros(4) for _ in range(2)]
    work = dist.all_gather(parts, x[3], async_op=True)
    while not work.is_completed():
        pass
    assert (torch.cat(parts) == 4).all()
    row, rows = torch.ones(3), torch.zeros(2, 3)
    sends = [dist.isend(row, peer), dist.isend(row, peer)]
    for k in range(2):
        dist.recv(rows[k], peer)
        rows[k] += row  # which is only read
    for work in sends:
        work.wait()
    row += 1
    future = dist.all_reduce(row, async_op=True).get_future().then(lambda done: done.value()[0] * 2)
    assert future.wait().sum() == 24
    for n in range(3):  # memory is another tensor's soon
        dist.all_reduce(torch.ones(5))
        assert (torch.ones(5) + n).sum() == 5 * (n + 1)
    dist.destroy_process_group()
