# SPDX-License-Identifier: BSD-3-Clause
"""One PE of ``bench --against``: operations that the host starts on a stream, eager and in a graph.

Usage: python -m pyshmem.bench.streams_pe PROVIDER [--quick]. PROVIDER is pyshmem, nccl or symm_mem; the
last two are torch's, one process a GPU with RANK and WORLD_SIZE. BENCH_OPS and BENCH_SIZES, where they
are set, leave other operations and sizes out. PE 0 prints one JSON line a figure: the median of
repetitions of the mean of calls back to back, the maximum over the PEs, in microseconds.
"""

from __future__ import annotations

import functools
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from .cupy_streams import external

SIZES = [8, 1 << 10, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 26, 1 << 28]
REPEAT = 5
QUICK = "--quick" in sys.argv
if QUICK:
    SIZES, REPEAT = [8, 1 << 10, 1 << 14], 2
OPS = list(
    filter(None, os.environ.get("BENCH_OPS", "").split(","))
)  # by the beginning of their names
if os.environ.get("BENCH_SIZES"):
    SIZES = [int(size) for size in os.environ["BENCH_SIZES"].split(",")]


def wanted(op: str) -> bool:
    """Is the operation to be measured?"""
    return not OPS or any(op.startswith(name) for name in OPS)


def calls_of(nbytes: int) -> int:
    """How many calls are timed together: 20, and fewer of large ones."""
    return 2 if QUICK else 20 if nbytes < 1 << 25 else 4


class Timer:
    """What differs between the providers: streams, events, graphs, the maximum over all PEs."""

    provider: str
    pes: int
    first: bool

    def us(self, call: Callable[[], Any], calls: int, graph: bool) -> float:
        """Microseconds a call on this PE."""
        raise NotImplementedError

    def most(self, value: float) -> float:
        """The maximum over the PEs."""
        raise NotImplementedError

    def emit(self, op: str, nbytes: int, call: Callable[[], Any]) -> None:
        """Measure and print an operation, eager and in a graph."""
        if not wanted(op):
            return
        row: dict[str, Any] = {"peer": self.provider, "op": op, "bytes": nbytes, "pes": self.pes}
        for name, graph in (("us_eager", False), ("us_graph", True)):
            try:
                values = [self.us(call, calls_of(nbytes), graph) for _ in range(REPEAT)]
                row[name] = round(self.most(statistics.median(values)), 2)
            except Exception as error:  # a provider without it says so in its row, on every PE
                row[name], row["error"] = None, str(error)[:160]
        if self.first:
            print(json.dumps(row), flush=True)


# ---- pyshmem ---------------------------------------------------------------------------------------


class Pyshmem(Timer):
    provider = "pyshmem"

    def __init__(self) -> None:
        import pyshmem

        self.shmem = pyshmem
        self.job = pyshmem.init(device_heap_size="64M" if QUICK else "3G")
        self.pes, self.first = self.job.n_pes, self.job.my_pe == 0
        self.stream = pyshmem.streams.Stream()
        self.worst = pyshmem.zeros(1), pyshmem.zeros(1)
        self.graphs: dict[int, Any] = {}
        if self.job.device == "cuda":
            import cupy

            self.cupy = cupy
            self.external = external(cupy, self.stream.handle)

    def most(self, value: float) -> float:
        self.worst[0][0] = value
        self.shmem.max_reduce(self.worst[1], self.worst[0])
        return float(self.worst[1][0])

    def _timed(self, run: Callable[[], Any]) -> float:
        if self.job.device != "cuda":
            begin = time.perf_counter()
            run()
            self.stream.synchronize()
            return (time.perf_counter() - begin) * 1e6
        begin, end = self.cupy.cuda.Event(), self.cupy.cuda.Event()
        begin.record(self.external)
        run()
        end.record(self.external)
        end.synchronize()
        return float(self.cupy.cuda.get_elapsed_time(begin, end)) * 1e3

    def us(self, call: Callable[[], Any], calls: int, graph: bool) -> float:
        def many() -> None:
            for _ in range(calls):
                call()

        if graph:
            with self.stream.capture() as captured:
                many()

            def many() -> None:
                captured.replay(self.stream)

        many()  # warm
        self.stream.synchronize()
        self.shmem.barrier_all()
        many()  # both PEs are under way before the clock starts
        return self._timed(many) / calls

    def run(self) -> None:
        shmem, stream, n = self.shmem, self.stream, self.pes
        right = (self.job.my_pe + 1) % n
        shmem.streams.prepare()
        shmem.streams.prepare("signal_wait_until")
        shmem.streams.prepare("sum_reduce", "sum_reduce_scatter", dtype=[np.float32])
        self.emit("barrier", 0, lambda: shmem.barrier_all(stream=stream))
        self.emit("sync", 0, lambda: shmem.sync_all(stream=stream))
        signal = shmem.new_signal(heap="device")
        self.emit("signal_set", 8, lambda: shmem.signal_set(signal, 1, right, stream=stream))
        if wanted("signal_round_trip"):
            self.round_trip()
        for nbytes in SIZES:
            self.of_size(nbytes, right)
        shmem.finalize()

    def round_trip(self) -> None:
        """A signal from a stream of PE 0 to one of PE 1 and back, with a number of its own each time."""
        shmem, stream, trips = self.shmem, self.stream, 2 if QUICK else 100
        me, signal, last = self.job.my_pe, shmem.new_signal(heap="device"), 0
        row: dict[str, Any] = {"peer": self.provider, "op": "signal_round_trip", "bytes": 8}

        def go() -> None:
            for number in range(last + 1, last + trips + 1) if me < 2 else ():
                steps = [
                    lambda k=number: shmem.signal_set(signal, k, 1 - me, stream=stream),
                    lambda k=number: shmem.signal_wait_until(
                        signal, shmem.CMP_GE, k, stream=stream
                    ),
                ]
                for step in reversed(steps) if me else steps:
                    step()

        for name, graph in (("us_eager", False), ("us_graph", True)) if self.pes > 1 else ():
            values = []
            for _ in range(REPEAT):
                run: Callable[[], None] = go
                if graph:  # for one replay
                    with stream.capture() as captured:
                        go()
                    run = functools.partial(captured.replay, stream)
                shmem.barrier_all()
                values.append(self._timed(run) / trips)
                last += trips
            row[name] = round(self.most(statistics.median(values)), 2)
        if self.first:
            print(json.dumps(row | {"pes": self.pes}), flush=True)

    def of_size(self, nbytes: int, right: int) -> None:
        shmem, stream, n = self.shmem, self.stream, self.pes
        count = max(nbytes // 4, 1)
        block = max(count // n, 1)
        x, y = (shmem.zeros(max(count, n), dtype=np.float32, heap="device") for _ in range(2))
        whole, part = {"nelems": count, "stream": stream}, {"nelems": block, "stream": stream}
        self.emit("put", nbytes, lambda: shmem.put(y, x, right, **whole))
        self.emit("all_reduce", nbytes, lambda: shmem.sum_reduce(y, x, **whole))
        self.emit("all_gather", nbytes, lambda: shmem.fcollect(y, x, **part))
        self.emit("all_to_all", nbytes, lambda: shmem.alltoall(y, x, **part))
        self.emit("reduce_scatter", nbytes, lambda: shmem.sum_reduce_scatter(y, x, **part))
        self.emit("broadcast", nbytes, lambda: shmem.broadcast(y, x, 0, **whole))
        if wanted("all_reduce_blocking"):
            self.blocking(x, y, nbytes)
        stream.synchronize()
        shmem.free(y)
        shmem.free(x)

    def blocking(self, x: Any, y: Any, nbytes: int) -> None:
        """A call that waits for its own stream; by the host's clock."""
        calls, values = calls_of(nbytes), []
        for _ in range(REPEAT + 1):
            self.shmem.barrier_all()
            begin = time.perf_counter()
            for _ in range(calls):
                self.shmem.sum_reduce(y, x)
            values.append((time.perf_counter() - begin) * 1e6 / calls)
        us = round(self.most(statistics.median(values[1:])), 2)
        row = {"peer": self.provider, "op": "all_reduce_blocking", "bytes": nbytes, "pes": self.pes}
        if self.first:
            print(json.dumps(row | {"us_eager": us}), flush=True)


# ---- torch -----------------------------------------------------------------------------------------


class Torch(Timer):
    def __init__(self, provider: str) -> None:
        import torch
        import torch.distributed as dist

        self.torch, self.dist, self.provider = torch, dist, provider
        rank = int(os.environ["RANK"])
        self.pes, self.first = int(os.environ["WORLD_SIZE"]), rank == 0
        torch.cuda.set_device(rank)
        dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
        self.stream = torch.cuda.Stream()

    def most(self, value: float) -> float:
        worst = self.torch.tensor([value], device="cuda", dtype=self.torch.float64)
        self.dist.all_reduce(worst, op=self.dist.ReduceOp.MAX)
        return float(worst)

    def us(self, call: Callable[[], Any], calls: int, graph: bool) -> float:
        torch = self.torch

        def many() -> None:
            for _ in range(calls):
                call()

        with torch.cuda.stream(self.stream):
            for _ in range(3):
                call()
        torch.cuda.synchronize()
        if graph:
            captured = torch.cuda.CUDAGraph()
            with torch.cuda.graph(captured, stream=self.stream):
                many()
            many = captured.replay
        self.dist.barrier()
        torch.cuda.synchronize()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        with torch.cuda.stream(self.stream):
            many()
            begin.record()
            many()
            end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) * 1e3 / calls

    def run(self) -> None:
        if self.provider == "nccl":
            self.nccl()
        else:
            self.symm_mem()
        self.dist.destroy_process_group()

    def nccl(self) -> None:
        for nbytes in SIZES:
            self.nccl_of_size(nbytes)

    def nccl_of_size(self, nbytes: int) -> None:
        torch, dist, n = self.torch, self.dist, self.pes
        count = max(nbytes // 4 // n, 1)
        x, y = (torch.ones(count * n, device="cuda") for _ in range(2))
        part = torch.empty(count, device="cuda")
        self.emit("all_reduce", nbytes, lambda: dist.all_reduce(x))
        self.emit("all_gather", nbytes, lambda: dist.all_gather_into_tensor(y, part))
        self.emit("all_to_all", nbytes, lambda: dist.all_to_all_single(y, x))
        self.emit("reduce_scatter", nbytes, lambda: dist.reduce_scatter_tensor(part, x))
        self.emit("broadcast", nbytes, lambda: dist.broadcast(x, 0))

    def symm_mem(self) -> None:
        for nbytes in [size for size in SIZES if 1 << 10 <= size <= 1 << 26]:
            self.symm_mem_of_size(nbytes)

    def symm_mem_of_size(self, nbytes: int) -> None:
        from pyshmem._foreign.torch import symmetric_memory

        symm = symmetric_memory()

        torch, group = self.torch, self.dist.group.WORLD.group_name
        x = symm.empty(nbytes // 4, device="cuda", dtype=torch.float32)
        symm.rendezvous(x, group)
        x.fill_(0)
        one, two = torch.ops.symm_mem.one_shot_all_reduce, torch.ops.symm_mem.two_shot_all_reduce_
        self.emit("all_reduce_one_shot", nbytes, lambda: one(x, "sum", group))
        self.emit("all_reduce_two_shot", nbytes, lambda: two(x, "sum", group))


if __name__ == "__main__":
    chosen = sys.argv[1]
    (Pyshmem() if chosen == "pyshmem" else Torch(chosen)).run()
