# SPDX-License-Identifier: BSD-3-Clause
"""Every call of torch.distributed on CPU tensors, on any number of PEs."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist

import pyshmem
import pyshmem.interop.torch as symmetric


def of(rank: int, *size: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """What a rank gives: numbers that the others do not give."""
    count = torch.Size(size).numel()
    return (torch.arange(count) % 13 + 20 * rank).to(dtype).view(size)


def expect(found: torch.Tensor, wanted: torch.Tensor) -> None:
    torch.testing.assert_close(found, wanted, rtol=0, atol=0)


def reductions(me: int, n: int) -> None:
    ops = dist.ReduceOp
    every = torch.stack([of(rank, 7, dtype=torch.int32) for rank in range(n)])
    for op, wanted in {
        ops.SUM: every.sum(0, dtype=torch.int32), ops.PRODUCT: every.prod(0, dtype=torch.int32),
        ops.MIN: every.amin(0), ops.MAX: every.amax(0),
    }.items():  # fmt: skip
        mine = of(me, 7, dtype=torch.int32)
        dist.all_reduce(mine, op=op)
        expect(mine, wanted)
    bits = torch.tensor([1 << me, 7], dtype=torch.int64)
    for op, wanted in {
        ops.BOR: [(1 << n) - 1, 7], ops.BAND: [int(n == 1), 7], ops.BXOR: [(1 << n) - 1, 7 * (n % 2)],
    }.items():  # fmt: skip
        mine = bits.clone()
        dist.all_reduce(mine, op=op)
        assert mine.tolist() == wanted, (op, mine)
    for dtype in (
        torch.float16, torch.bfloat16, torch.float64, torch.complex64, torch.uint8, torch.int16,
    ):  # fmt: skip
        mine = torch.ones(5, dtype=dtype)
        dist.all_reduce(mine)
        expect(mine, torch.full((5,), n, dtype=dtype))
    flags = torch.tensor([me == 0, False, True])
    dist.all_reduce(flags, op=ops.SUM)
    assert flags.tolist() == [True, False, True]
    mean = torch.full((3,), float(me))
    dist.all_reduce(mean, op=ops.AVG)
    expect(mean, torch.full((3,), (n - 1) / 2))
    at_root = of(me, 3)
    dist.reduce(at_root, n - 1)
    expect(at_root, sum(of(r, 3) for r in range(n)) if me == n - 1 else of(me, 3))
    # More than the group's memory, and a view with holes.
    large = of(me, 300_000)
    dist.all_reduce(large)
    expect(large, sum(of(rank, 300_000) for rank in range(n)))
    holes = of(me, 4, 6)
    dist.all_reduce(holes[:, ::2])
    expect(holes[:, ::2], sum(of(rank, 4, 6)[:, ::2] for rank in range(n)))
    expect(holes[:, 1::2], of(me, 4, 6)[:, 1::2])


def moves(me: int, n: int) -> None:
    mine = of(me, 2, 3, dtype=torch.bfloat16)
    dist.broadcast(mine, n - 1)
    expect(mine, of(n - 1, 2, 3, dtype=torch.bfloat16))
    rows = [torch.empty(3, 2).t() for _ in range(n)]
    dist.all_gather(rows, of(me, 2, 3))
    for rank, row in enumerate(rows):
        expect(row, of(rank, 2, 3))
    ragged = [torch.empty(rank + 1) for rank in range(n)]
    dist.all_gather(ragged, of(me, me + 1))
    for rank, row in enumerate(ragged):
        expect(row, of(rank, rank + 1))
    whole = torch.empty(n * 300_000)
    dist.all_gather_into_tensor(whole, of(me, 300_000))
    expect(whole, torch.cat([of(rank, 300_000) for rank in range(n)]))
    part = whole.view(n, -1)[me]  # as FSDP2: the input is a part of the output
    dist.all_gather_into_tensor(whole, part)
    share = torch.empty(2, 2)
    dist.reduce_scatter_tensor(share, of(me, 2 * n, 2))
    expect(share, sum(of(rank, 2 * n, 2) for rank in range(n))[2 * me : 2 * me + 2])
    dist.reduce_scatter(share, [of(me + r, 2, 2) for r in range(n)])
    expect(share, sum(of(rank + me, 2, 2) for rank in range(n)))
    got = torch.empty(n, 4)
    dist.all_to_all_single(got, of(me, n, 4))
    expect(got, torch.stack([of(rank, n, 4)[me] for rank in range(n)]))
    splits = [rank + 1 for rank in range(n)]
    uneven = torch.empty(n * (me + 1), 2)
    dist.all_to_all_single(uneven, of(me, sum(splits), 2), [me + 1] * n, splits)
    begin = sum(splits[:me])
    expect(uneven, torch.cat([of(r, sum(splits), 2)[begin : begin + me + 1] for r in range(n)]))
    outs = [torch.empty(me + 1) for _ in range(n)]
    dist.all_to_all(outs, [of(me, rank + 1) for rank in range(n)])
    for rank, out in enumerate(outs):
        expect(out, of(rank, me + 1))
    rows = [torch.empty(2) for _ in range(n)] if me == 0 else []
    dist.gather(of(me, 2), rows or None, 0)
    for rank, row in enumerate(rows):
        expect(row, of(rank, 2))
    one = torch.empty(5)
    dist.scatter(one, [of(rank, 5) for rank in range(n)] if me == 0 else None, 0)
    expect(one, of(me, 5))
    eighths = of(me, 6).to(torch.float8_e4m3fn)
    dist.broadcast(eighths, 0)
    expect(eighths.float(), of(0, 6).to(torch.float8_e4m3fn).float())


def several(me: int, n: int) -> None:
    first, second = of(me, 3), of(me, 5)
    with dist._coalescing_manager():
        dist.all_reduce(first)
        dist.all_reduce(second)
    expect(second, sum(of(rank, 5) for rank in range(n)))
    works = [dist.all_reduce(tensor, async_op=True) for tensor in (of(me, 4), of(me, 9))]
    for work, size in zip(works, (4, 9), strict=True):
        (result,) = work.get_future().then(lambda future: future.value()).wait()
        expect(result, sum(of(rank, size) for rank in range(n)))
        assert work.is_completed()
    told = [None] * n
    dist.all_gather_object(told, {"rank": me})
    assert told == [{"rank": rank} for rank in range(n)]
    said = [("from 0", 1.5)] if me == 0 else [None]
    dist.broadcast_object_list(said, 0)
    assert said == [("from 0", 1.5)]
    dist.barrier()


def messages(me: int, n: int) -> None:
    right, left = (me + 1) % n, (me - 1) % n
    for size in (3, 100_000):  # the second takes several pieces
        box = torch.empty(size)
        calls = [dist.P2POp(dist.isend, of(me, size), right), dist.P2POp(dist.irecv, box, left)]
        for work in dist.batch_isend_irecv(calls):
            work.wait()
        expect(box, of(left, size))
    sends = [dist.isend(of(me + i, 2), right, tag=i) for i in range(6)]
    for i in range(6):
        box = torch.empty(2)
        dist.recv(box, left, tag=i)
        expect(box, of(left + i, 2))
    for work in sends:
        work.wait()
    if me == 0:
        dist.send(of(0, 4), 1, tag=1)
    elif me == 1:
        with pytest.raises(pyshmem.MismatchError, match=r"a message of float32.4."):
            dist.recv(torch.empty(2), 0, tag=1)
    dist.barrier()
    if me:
        dist.send(of(me, 2), 0)
    for _ in range(0 if me else n - 1):
        box = torch.empty(2)
        expect(box, of(dist.recv(box), 2))


def groups(me: int, n: int) -> None:
    pairs = [dist.new_group([0, rank]) for rank in range(1, n)]  # made by their members alone
    for rank, group in enumerate(pairs, 1):
        if me in (0, rank):
            mine = of(me, 3)
            dist.all_reduce(mine, group=group)
            expect(mine, of(0, 3) + of(rank, 3))
    back = dist.new_group(list(range(n))[::-1])
    team = back.team
    assert team.pes() == list(range(n))  # torch sorts the ranks of a group
    for _ in range(40):  # what a group has is given back with it
        group = dist.new_group()
        mine = torch.ones(1)
        dist.all_reduce(mine, group=group)
        assert mine == n
        dist.destroy_process_group(group)
    team = symmetric.from_process_group(back)
    total = pyshmem.ones(1)
    pyshmem.sum_reduce(total, total, team=team)
    assert total[0] == n
    team.destroy()


def refusals(me: int, n: int) -> None:
    whole = torch.empty(3 * n)
    for call, message in (
        (lambda: dist.all_reduce(torch.ones(2).to_sparse()), "dense"),
        (lambda: dist.all_reduce(torch.ones(2, dtype=torch.float8_e5m2)), "float8_e5m2"),
        (lambda: dist.all_reduce(torch.ones(2), op=dist.ReduceOp.BAND), "float32"),
        (lambda: dist.all_reduce(torch.ones(2).int(), op=dist.ReduceOp.AVG), "floating"),
        (lambda: dist.all_gather([torch.empty(2)] * n, torch.ones(3)), "bytes"),
        (lambda: dist.all_gather_into_tensor(whole, torch.ones(3).int()), "int32"),
        (lambda: dist.reduce_scatter_tensor(torch.ones(3).int(), whole), "int32"),
        (
            lambda: dist.all_gather_into_tensor(torch.empty(4 * n, 3)[::2], torch.ones(3)),
            "elements",
        ),
        (lambda: dist.new_group(backend="pyshmem", pg_options=3), "Options"),
    ):
        with pytest.raises((TypeError, ValueError, RuntimeError, pyshmem.ShmemError)) as told:
            call()
        assert message in str(told.value), (message, told.value)


symmetric.init_process_group(options=symmetric.Options(staging="8M"))
me, n = dist.get_rank(), dist.get_world_size()
assert (me, n) == (pyshmem.my_pe(), pyshmem.n_pes())
assert dist.get_backend() == "pyshmem"
reductions(me, n)
moves(me, n)
several(me, n)
if n > 1:
    messages(me, n)
groups(me, n)
refusals(me, n)
dist.destroy_process_group()
assert not pyshmem.initialized()
print("ok", flush=True)
