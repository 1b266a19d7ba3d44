# SPDX-License-Identifier: BSD-3-Clause
"""What GPUs do, in the simulator: staged collectives and messages by kernels on a stream.

Its default stream does everything at once, so that torch's copies on the CPU are in its order.
"""

from __future__ import annotations

import numpy as np
import torch

import pyshmem
from pyshmem._torch import tensors
from pyshmem._torch.staging import Reduction, Staging
from pyshmem.interop.torch.send_recv import Mailbox

STREAM = 0


def of(rank: int, count: int) -> torch.Tensor:
    return torch.arange(count, dtype=torch.float32) % 11 + 3 * rank


def few_bytes_as_they_are(staging: Staging, me: int, n: int) -> None:
    """In place, of parts that lie apart, begin between two units or overlap: no block is used."""
    total = Reduction("sum", torch.float32)
    block = staging._halves[0].untyped_storage()
    before = bytes(block)
    every = [of(rank, 100) for rank in range(n)]
    for shift in (0, 1):  # 4 bytes behind a multiple of 16
        box = torch.empty(100 * n + 1)[shift:]
        rows = list(box[: 100 * n].view(n, 100).unbind(0))
        box[:100] = of(me, 100)
        staging.all_reduce(box[:100], box[:100], total, STREAM)
        assert torch.equal(box[:100], sum(every))
        staging.all_reduce(box[:100], of(me, 100), Reduction("avg", torch.float32, 2), STREAM)
        torch.testing.assert_close(box[:100], 2 * sum(every) / n)
        for root in range(n):
            box[:100] = of(me, 100)
            staging.all_reduce(box[:100], of(me, 100), total, STREAM, root)
            assert torch.equal(box[:100], sum(every) if me == root else of(me, 100))
            box[:100] = of(me, 100)
            staging.broadcast(box[:100], box[:100], root, STREAM)
            assert torch.equal(box[:100], every[root])
            staging.all_gather(rows if me == root else [], of(me, 100), STREAM, root)
            if me == root:
                assert torch.equal(box[: 100 * n], torch.cat(every))
        for whose in (me, (me + 1) % n):  # the own place, and one that another's part comes to
            rows[whose].copy_(of(me, 100))
            staging.all_gather(rows, rows[whose], STREAM)
            assert torch.equal(box[: 100 * n], torch.cat(every))
        blocks = [of(me + r, 100) for r in range(n)]
        for whose in (me, (me + 1) % n):
            box[: 100 * n] = torch.cat(blocks)
            staging.reduce_scatter(rows[whose], rows, total, STREAM)
            assert torch.equal(rows[whose], sum(of(rank + me, 100) for rank in range(n)))
        box[: 100 * n] = torch.cat(blocks)
        staging.all_to_all(rows, rows, STREAM)
        assert torch.equal(box[: 100 * n], torch.cat([of(r + me, 100) for r in range(n)]))
        staging.all_to_all(rows, blocks, STREAM)  # not in one
        assert torch.equal(box[: 100 * n], torch.cat([of(r + me, 100) for r in range(n)]))
        backwards = rows[::-1]
        staging.all_gather(backwards, of(me, 100), STREAM)
        assert torch.equal(box[: 100 * n], torch.cat(every[::-1]))
    if n > 1:
        assert bytes(block) == before


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

    few_bytes_as_they_are(staging, me, n)
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
