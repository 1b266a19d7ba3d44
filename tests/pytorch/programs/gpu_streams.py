# SPDX-License-Identifier: BSD-3-Clause
"""Collectives of CUDA tensors that C++ gives to the library: which go there, on which streams, and how.

Each call is compared with what its definition says of every rank's tensors, which all ranks can make.
"""

from __future__ import annotations

import itertools
import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile

import pyshmem
import pyshmem.interop.torch as symmetric

#: Elements a rank: by flags in the data, near where that ends, and by staging memory.
SIZES = (1, 4, 1000, 4096, 30_001, 1 << 18, 3_000_001)
DTYPES = (torch.float32, torch.int64, torch.bfloat16, torch.bool)
SUM, AVG, MAX = dist.ReduceOp.SUM, dist.ReduceOp.AVG, dist.ReduceOp.MAX
Case = tuple[
    Callable[..., Any], torch.Tensor, torch.Tensor
]  # a call, its result and what that has to be


def given(rank: int, count: int, dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    """What a rank gives: small whole numbers, whose sums are exact in every dtype."""
    numbers = torch.arange(count, device="cuda")
    return ((numbers * (rank + 3) + 7 * rank + seed) % 5).to(dtype)


def placed(tensor: torch.Tensor, odd: bool) -> torch.Tensor:
    """The tensor, where kernels want it or an element behind."""
    memory = torch.empty(tensor.numel() + 16, dtype=tensor.dtype, device="cuda")
    begin = memory[odd : odd + tensor.numel()]
    return begin.copy_(tensor)


def cases(me: int, n: int, count: int, dtype: torch.dtype, odd: bool) -> Iterator[Case]:
    every = [given(rank, count, dtype) for rank in range(n)]
    stacked = torch.stack([one.to(torch.int64) for one in every])
    wanted = {SUM: stacked.sum(0), MAX: stacked.amax(0)}
    for op in (SUM, MAX):
        x = placed(every[me], odd)
        right = wanted[op].bool() if dtype == torch.bool else wanted[op].to(dtype)
        yield lambda x=x, op=op, **kw: dist.all_reduce(x, op, **kw), x, right
    if dtype.is_floating_point:
        x = placed(every[me] * n, odd)
        yield lambda x=x, **kw: dist.all_reduce(x, AVG, **kw), x, wanted[SUM].to(dtype)
    for root in range(n):
        x = placed(every[me], odd)
        yield lambda x=x, root=root, **kw: dist.broadcast(x, root, **kw), x, every[root]
    x, out = placed(every[me], odd), placed(torch.empty(n * count, dtype=dtype, device="cuda"), odd)
    yield (
        lambda x=x, out=out, **kw: dist.all_gather_into_tensor(out, x, **kw),
        out,
        torch.cat(every),
    )
    out = placed(torch.empty(n * count, dtype=dtype, device="cuda"), odd)
    part = out[me * count : (me + 1) * count].copy_(every[me])  # in place
    yield (
        lambda x=part, out=out, **kw: dist.all_gather_into_tensor(out, x, **kw),
        out,
        torch.cat(every),
    )
    blocks = [[given(rank, count, dtype, to) for to in range(n)] for rank in range(n)]
    x = placed(torch.cat(blocks[me]), odd)
    out = placed(torch.empty(n * count, dtype=dtype, device="cuda"), odd)
    came = torch.cat([blocks[rank][me] for rank in range(n)])
    yield lambda x=x, out=out, **kw: dist.all_to_all_single(out, x, **kw), out, came
    total = torch.stack([blocks[rank][me].to(torch.int64) for rank in range(n)]).sum(0)
    total = total.bool() if dtype == torch.bool else total.to(dtype)
    out = placed(torch.empty(count, dtype=dtype, device="cuda"), odd)
    yield lambda x=x, out=out, **kw: dist.reduce_scatter_tensor(out, x, **kw), out, total
    x = placed(torch.cat(blocks[me]), odd)
    part = x[me * count : (me + 1) * count]
    yield lambda x=x, out=part, **kw: dist.reduce_scatter_tensor(out, x, **kw), part, total


def check(result: torch.Tensor, wanted: torch.Tensor, *about: object) -> None:
    assert torch.equal(result, wanted), (*about, result, wanted)


def eager(me: int, n: int) -> None:
    """Sync and async calls in turn on three streams: each sees what the streams before it have done."""
    streams = [torch.cuda.current_stream(), torch.cuda.Stream(), torch.cuda.Stream()]
    turn = itertools.cycle(itertools.product(streams, (False, True)))
    for count, dtype in itertools.product(SIZES, DTYPES):
        for odd in (False, True):
            if count == SIZES[-1] and dtype != torch.float32:
                continue
            for number, (call, result, wanted) in enumerate(cases(me, n, count, dtype, odd)):
                stream, async_op = next(turn)
                stream.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(stream):
                    work = call(async_op=async_op)
                    if async_op:
                        work.wait()
                torch.cuda.current_stream().wait_stream(stream)
                check(result, wanted, count, dtype, odd, number, async_op)


def one_odd(me: int, n: int) -> None:
    """Rank 0 by Python, as its memory begins oddly, the others by C++: it is one call."""
    for count in SIZES:
        for call, result, wanted in cases(me, n, count, torch.float32, me == 0):
            call()
            check(result, wanted, count)


def waits_elsewhere(me: int, n: int) -> None:
    """A work of a call on one stream is waited for in another, and by the host."""
    group = dist.distributed_c10d._get_default_group()
    options = dist.AllreduceOptions()
    options.asyncOp = False
    other = torch.cuda.Stream()
    for _ in range(20):
        x = torch.ones(1 << 20, device="cuda")
        torch.cuda._sleep(1_000_000)
        work = group.allreduce([x], options)
        with torch.cuda.stream(other):
            work.wait()
            doubled = x * 2
        torch.cuda.current_stream().wait_stream(other)
        check(doubled, torch.full_like(x, 2.0 * n))
        assert work.is_completed()


def captured(me: int, n: int) -> None:
    """The same calls in a graph, between eager ones."""
    for count in (1000, 1 << 18):
        plain = list(cases(me, n, count, torch.float32, False))
        one, *_ = (call for call, _, _ in plain)
        gathered, source = torch.zeros(n * count, device="cuda"), torch.zeros(count, device="cuda")
        summed = torch.zeros(count, device="cuda")
        dist.all_gather_into_tensor(gathered, source)  # what a capture cannot load
        dist.all_reduce(summed)
        one()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            source.add_(me + 1)
            dist.all_gather_into_tensor(gathered, source)
            summed.copy_(source)
            dist.all_reduce(summed)
        for turn in range(1, 6):
            graph.replay()
            check(summed, torch.full_like(summed, turn * n * (n + 1) / 2), count, turn)
            dist.all_reduce(summed)
            check(summed, torch.full_like(summed, turn * n * n * (n + 1) / 2), count, turn)
        right = torch.cat(
            [torch.full((count,), 5.0 * (rank + 1), device="cuda") for rank in range(n)]
        )
        check(gathered, right)
        torch.cuda.synchronize()
        dist.barrier()


def without_python(me: int, n: int) -> None:
    """Calls of the kind that goes to C++ do so: their methods in Python are not called."""
    group = dist.distributed_c10d._get_default_group()._get_backend(torch.device("cuda")).group
    assert group.stream_collectives is not None
    names = (
        "allreduce",
        "broadcast",
        "all_gather_single",
        "all_to_all_single",
        "reduce_scatter_single",
    )

    def refused(*_: object) -> None:
        raise AssertionError("Python was asked")

    for name in names:
        setattr(group, name, refused)
    for count in (4, 1000, 1 << 18):
        for call, result, wanted in cases(me, n, count, torch.float32, False):
            call()
            check(result, wanted, count)
    for name in names:
        delattr(group, name)


def events(group: Any, name: str, device: str) -> list[tuple[object, ...]]:
    """What the profiler shows of some calls: titles but for the backend's name, sizes, dtypes, group."""
    n = dist.get_world_size()

    def calls() -> None:
        x, whole = torch.ones(4, device=device), torch.ones(4 * n, dtype=torch.int32, device=device)
        dist.all_reduce(x, group=group)
        dist.all_reduce(x, group=group, async_op=True).wait()
        dist.broadcast(whole, 0, group=group)
        dist.all_gather_into_tensor(
            whole, torch.ones(4, dtype=torch.int32, device=device), group=group
        )
        dist.all_to_all_single(
            torch.zeros(4 * n, device=device), torch.ones(4 * n, device=device), group=group
        )
        dist.all_gather([torch.zeros(4, device=device) for _ in range(n)], x, group=group)

    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as recorded:
        calls()
    with tempfile.NamedTemporaryFile("r", suffix=".json") as file:
        recorded.export_chrome_trace(file.name)
        trace = json.loads(Path(file.name).read_text())["traceEvents"]
    found = []
    for event in trace:
        about, title = event.get("args", {}), event.get("name", "").replace(f"{name}:", ":")
        if title.startswith((":", "c10d::")):
            keys = "Input Dims", "Input type", "Process Group Name"
            found.append((title, *map(about.get, keys)))
    return sorted(found, key=repr)


def profiled(me: int, n: int) -> None:
    """Events of calls that go by C++ on a GPU are Gloo's of the same calls on CPUs."""
    gloo = dist.new_group(backend="gloo")
    ours, theirs = events(dist.group.WORLD, "pyshmem", "cuda"), events(gloo, "gloo", "cpu")
    assert ours == theirs, (ours, theirs)
    assert len([title for title, *_ in ours if title[0] == ":"]) == 6, ours
    dist.destroy_process_group(gloo)


with pyshmem.init(device="cuda") as job:
    me, n = job.my_pe, job.n_pes
    torch.cuda.set_device(job.gpu)
    symmetric.init_process_group()
    for _ in range(40):  # the first ones are compared, in Python
        dist.all_reduce(torch.ones(4, device="cuda"))
    for part in (eager, one_odd, waits_elsewhere, captured, without_python, profiled):
        part(me, n)
        torch.cuda.synchronize()
        dist.barrier()
    members = list(range(n - 1)) or [0]
    some = dist.new_group(members)
    for _ in range(40 if me in members else 0):
        x = torch.ones(1000, device="cuda")
        dist.all_reduce(x, group=some)
        assert (x == len(members)).all()
    dist.destroy_process_group()
print("ok", flush=True)
