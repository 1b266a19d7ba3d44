# SPDX-License-Identifier: BSD-3-Clause
"""Runs a kernel of ``kernels`` and turns its clock into rows."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import cuda

import pyshmem

Shape = tuple[int, int]  # threads of a block, blocks

MOST_BLOCKS = 512
_NAP = 100e-6  # seconds


class Row(NamedTuple):
    """A figure. ``peer`` is whose it is: pyshmem, pyshmem by one of its ways, or another library.

    Attributes:
        bytes: those of the whole grid's operation; of one PE for collectives.
        us: microseconds an operation; what the name of ``op`` says instead when it is a share.
    """

    peer: str
    op: str
    bytes: int
    pes: int
    blocks: int
    threads: int
    us: float

    def print(self) -> None:
        """One JSON line."""
        print(json.dumps(self._replace(us=round(self.us, 5))._asdict()), flush=True)


class Clock:
    """Times kernels, whose last two arguments are the iterations and where the times go.

    Args:
        simulated: on the simulator one iteration says as much as many.
        emit: what is done with rows, on PE 0.
    """

    def __init__(self, job: Any, emit: Callable[[Row], None] = Row.print) -> None:
        self.job = job
        self.simulated = job.device in ("sim", "cpu")
        self._emit = emit
        self._ns = cuda.device_array((MOST_BLOCKS, 2), np.int64)

    def emit(self, op: str, nbytes: int, shape: Shape, us: float, way: str = "") -> None:
        """Reports a figure of this job; PE 0's."""
        if self.job.my_pe == 0:
            threads, blocks = shape
            peer = f"pyshmem {way}".rstrip()
            self._emit(Row(peer, op, nbytes, self.job.n_pes, blocks, threads, us))

    def once(self, kernel: Any, shape: Shape, iterations: int, *args: Any) -> float:
        """Microseconds an iteration, from the first block's begin to the last one's end."""
        threads, blocks = shape
        kernel[blocks, threads](*args, iterations, self._ns)
        self._wait()
        spans = self._ns.copy_to_host()[:blocks]
        return float(spans[:, 1].max() - spans[:, 0].min()) / iterations / 1e3

    def _wait(self) -> None:
        """Until the kernel has ended, by a look now and then.

        A thread that spins in the driver costs each copy that the proxy starts a microsecond.
        """
        if not self.simulated:
            ended = cuda.event(timing=False)
            ended.record()
            while not ended.query():
                time.sleep(_NAP)
        cuda.synchronize()

    def alone(self, kernel: Any, shape: Shape, *args: Any, budget_us: float = 3000) -> float:
        """The least of three runs of a kernel that needs no other PE, after two that warm up."""
        self.once(kernel, shape, 1, *args)
        if self.simulated:
            return self.once(kernel, shape, 1, *args)
        estimate = self.once(kernel, shape, 3, *args)
        iterations = int(min(max(budget_us / estimate, 2), 1000))
        return min(self.once(kernel, shape, iterations, *args) for _ in range(3))

    def together(self, kernel: Any, shape: Shape, iterations: int, *args: Any) -> float:
        """The least of five runs of a kernel that all PEs run, after one that compiles."""
        runs, iterations = (1, 1) if self.simulated else (5, iterations)
        times = []
        for _ in range(runs + 1):
            pyshmem.barrier_all()
            times.append(self.once(kernel, shape, iterations, *args))
        return min(times[1:])


def slowest(values: list[float]) -> list[float]:
    """The largest of all PEs' values, one by one. All PEs."""
    source = pyshmem.zeros(max(len(values), 1), dtype=np.float64)
    dest = pyshmem.zeros_like(source)
    source[: len(values)] = values
    pyshmem.max_reduce(dest, source)
    result = [float(value) for value in dest[: len(values)]]
    pyshmem.free(source)
    pyshmem.free(dest)
    return result


def say(text: str) -> None:
    """To the user, beside the rows."""
    print(text, file=sys.stderr, flush=True)
