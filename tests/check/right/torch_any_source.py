# SPDX-License-Identifier: BSD-3-Clause
"""Rank 0 hands out rows to whoever asks and hears of each; who does which is open. PEs: 3."""

import torch
import torch.distributed as dist

import pyshmem
import pyshmem.interop.torch as symmetric

ROWS, END = 5, -1

with pyshmem.init(device="sim") as job:
    symmetric.init_process_group()
    me, n = dist.get_rank(), dist.get_world_size()
    result, job_of = symmetric.zeros(2), symmetric.zeros(1)
    if me:
        dist.send(result, 0)  # the first time it only asks
        while True:
            dist.recv(job_of, 0)
            row = job_of.item()
            if row == END:
                break
            result.copy_(torch.tensor([row, row * row]))
            dist.send(result, 0)
    else:
        left, total, busy = list(range(ROWS)), 0.0, n - 1
        asked = 0
        while busy:
            sender = dist.recv(result)
            asked += 1
            total += result[1].item()
            busy -= not left
            job_of.fill_(left.pop(0) if left else END)
            dist.send(job_of, sender)
        print(total, asked)
        assert total == sum(row * row for row in range(ROWS))
        assert asked == ROWS + n - 1
    dist.barrier()
    dist.destroy_process_group()
