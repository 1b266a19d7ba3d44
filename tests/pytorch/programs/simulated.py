# SPDX-License-Identifier: BSD-3-Clause
"""What GPUs do, in the simulator: staged collectives and messages by kernels on a stream.

Its default stream does everything at once, so that torch's copies on the CPU are in its order.
"""

from __future__ import annotations

import numpy as np
import torch

import pyshmem
from pyshmem.interop.torch import tensors
from pyshmem.interop.torch.mailbox import Mailbox
from pyshmem.interop.torch.staging import Reduction, Staging

STREAM = 0


def of(rank: int, count: int) -> torch.Tensor:
    return torch.arange(count, dtype=torch.float32) % 11 + 3 * rank


with pyshmem.init() as job:
    me, n = job.my_pe, job.n_pes
    world = pyshmem.TEAM_WORLD
    block = tensors.over(pyshmem.zeros(1 << 15, np.uint8, heap="device"))
    staging = Staging(world, block[: 1 << 14])
    every = [of(rank, 3000) for rank in range(n)]  # in two pieces
    got = torch.empty(3000)
    staging.all_reduce(got, of(me, 3000), Reduction("sum", torch.float32), STREAM)
    torch.testing.assert_close(got, sum(every), rtol=0, atol=0)
    staging.all_reduce(got, of(me, 3000), Reduction("avg", torch.float32), STREAM)
    torch.testing.assert_close(got, sum(every) / n)
    for root in range(n):
        staging.broadcast(got, of(me, 3000), root, STREAM)
        assert torch.equal(got, every[root])
    rows = [torch.empty(500) for _ in range(n)]
    for repeat in range(4):  # both halves, in turn
        staging.all_gather(rows, of(me + repeat, 500), STREAM)
        assert all(torch.equal(row, of(r + repeat, 500)) for r, row in enumerate(rows))
    share = torch.empty(100)
    blocks = [of(me + r, 100) for r in range(n)]
    staging.reduce_scatter(share, blocks, Reduction("max", torch.float32), STREAM)
    assert torch.equal(share, of(n - 1 + me, 100))
    rows = [torch.empty(100) for _ in range(n)]
    staging.all_to_all(rows, blocks, STREAM)
    assert all(torch.equal(row, of(r + me, 100)) for r, row in enumerate(rows))
    staging.scatter(share, blocks, 0, STREAM)
    assert torch.equal(share, of(me, 100))

    mailbox = Mailbox(world, block[1 << 14 :])
    pyshmem.barrier_all()
    for size in (10, 700):
        box = torch.empty(size)
        if n > 1:
            mailbox.send(of(me, size), (me + 1) % n, 0, STREAM)
            mailbox.receive(box, (me - 1) % n, 0, STREAM)
            assert torch.equal(box, of((me - 1) % n, size))
    pyshmem.barrier_all()
print("ok", flush=True)
