# SPDX-License-Identifier: BSD-3-Clause
"""Times calls that PyTorch's current stream orders, eager and in CUDA graphs."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

import pyshmem

CALLS, BLOCKS = 10, 5


class TorchClock:
    """A job's clock: the PEs make the same calls.

    Attributes:
        on_gpu: whether figures mean anything; in the interpreter a call is made once.
        device: where tensors go.
    """

    def __init__(self, job: Any) -> None:
        self.job, self.on_gpu = job, job.device == "cuda"
        self.device = torch.device("cuda", job.gpu) if self.on_gpu else torch.device("cpu")
        self._most = pyshmem.zeros(1), pyshmem.zeros(1)

    def random(self, *size: int) -> torch.Tensor:
        """Normal numbers, bfloat16 on a GPU and float32 in the interpreter."""
        dtype = torch.bfloat16 if self.on_gpu else torch.float32
        return torch.randn(*size, device=self.device, dtype=dtype)

    def slowest(self, value: float) -> float:
        """The largest of the PEs' values."""
        dest, source = self._most
        source[0] = value
        pyshmem.max_reduce(dest, source)
        return float(dest[0])

    def us(self, call: Callable[[], Any], *, graph: bool = False) -> float:
        """Microseconds a call on this PE: the median of blocks of calls back to back."""
        if not self.on_gpu:
            begin = time.perf_counter()
            call()
            return 1e6 * (time.perf_counter() - begin)
        for _ in range(2):
            call()
        torch.cuda.synchronize()
        block = self._captured(call) if graph else lambda: [call() for _ in range(CALLS)]
        found: list[float] = []
        for _ in range(BLOCKS):
            torch.cuda.synchronize()
            pyshmem.barrier_all()
            block()
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            block()
            end.record()
            end.synchronize()
            found.append(begin.elapsed_time(end) * 1e3 / CALLS)
        pyshmem.barrier_all()
        return statistics.median(found)

    def turns(self, calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, list[float]]:
        """Microseconds a call in a graph on this PE: blocks of all calls in turn, one of each a round.

        Figures of a round are of one state of the GPU's clock, which falls as it gets warm.
        """
        if not self.on_gpu:
            return {name: [self.us(call)] for name, call in calls.items()}
        blocks = {}
        for name, call in calls.items():
            call()
            torch.cuda.synchronize()
            blocks[name] = self._captured(call)
        found: dict[str, list[float]] = {name: [] for name in calls}
        for number in range(rounds + 1):
            for name, block in blocks.items():
                torch.cuda.synchronize()
                pyshmem.barrier_all()
                begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                begin.record()
                block()
                end.record()
                end.synchronize()
                if number:  # the first round warms up
                    found[name].append(begin.elapsed_time(end) * 1e3 / CALLS)
        pyshmem.barrier_all()
        return found

    def _captured(self, call: Callable[[], Any]) -> Callable[[], Any]:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(CALLS):
                call()
        replay: Callable[[], Any] = graph.replay
        return replay
