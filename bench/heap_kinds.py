# SPDX-License-Identifier: BSD-3-Clause
"""Figures of kernels on a device heap that grows beside those on one of a fixed size, in turns.

    python -m pyshmem run -n 2 bench/heap_kinds.py [turns]

One process, a job after a job: the settings of PYSHMEM_DEVICE_HEAP_GROWS take turns, so that clocks
and neighbours are the same for both. One JSON line a figure from PE 0: the medians over the turns in
us, and their ratio, of the heap that grows to the fixed one.

How long a load takes depends on where its line lies in a GPU, by a tenth and whatever the heap: the
bytes of a get are 1.00 to 1.10 us away. Heaps of both kinds lie in other places each, always the same
ones. So a figure is the mean over many places in the arrays, and from turn to turn more memory is held
in front of the job's, so that its heap, and the words of meetings, lie elsewhere. The lines ``by line``
have the least, the mean and the most of a get by place.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
from functools import cache
from typing import Any

import numpy as np

import pyshmem  # before numba
from numba import cuda
from pyshmem import device as shmem
from pyshmem.bench import kernels
from pyshmem.bench.timing import Clock, Shape

TURNS = int(sys.argv[1]) if len(sys.argv) > 1 else 9
HEAPS = {"fixed": "0", "grows": "auto"}  # what PYSHMEM_DEVICE_HEAP_GROWS is
MOST = 16 << 20
SHAPES: tuple[Shape, ...] = ((1, 1), (1024, 1), (1024, 32))
SIZES = (8, 4096, 64 << 10, 1 << 20, MOST)
MOVERS = {
    ("put", False): shmem.put,
    ("put", True): shmem.put_work_group,
    ("get", False): shmem.get,
    ("get", True): shmem.get_work_group,
}
MEETINGS = ("sync_all", "barrier_all", "barrier_all_work_group")
EXCHANGES = ("fcollect_work_group", "alltoall_work_group", "sum_reduce_work_group")

Figure = tuple[str, int, Shape]
LINE, PAGE = 128, 2 << 20
HELD = 19 * PAGE  # more from turn to turn


def places(nbytes: int, turn: int, room: int) -> list[int]:
    """Where in an array of ``room`` bytes a figure is measured: on other lines, and in other pages."""
    n = 48 if nbytes <= 4096 else 12 if nbytes <= 64 << 10 else 6 if nbytes < PAGE else 2
    step = (room - nbytes) // n // LINE * LINE
    return (
        [k * step + (7 * k + 3 * turn) % 61 * LINE for k in range(n)] if step > 61 * LINE else [0]
    )


@cache
def kernel_of(kind: str, name: Any) -> Any:
    """Compiled once: later jobs launch the same kernel."""
    if kind == "move":
        return kernels.mover(MOVERS[name])
    routine = getattr(shmem, name)
    return kernels.sync(routine) if kind == "meet" else kernels.exchange(routine)


class Turn:
    """A job of one kind of heap, and what it measures."""

    def __init__(self, job: pyshmem.Job, turn: int) -> None:
        self.clock, self.found, self.turn = Clock(job), dict[Figure, float](), turn
        self.by_line: list[float] = []
        self.alone = job.my_pe == 0
        self.often = 2 if self.clock.simulated else 500
        self.dest, self.source = (
            pyshmem.zeros(MOST * job.n_pes, dtype=np.uint8, heap="device") for _ in range(2)
        )

    def places(self, nbytes: int) -> list[int]:
        return [0] if self.clock.simulated else places(nbytes, self.turn, MOST)

    def move(self) -> None:
        """Puts and gets of PE 0, by the way that the table chooses."""
        shapes: tuple[Shape, ...] = ((1, 1), (32, 1)) if self.clock.simulated else SHAPES
        sizes = (8, 4096) if self.clock.simulated else SIZES
        pyshmem.barrier_all()
        for op, shape in ((op, shape) for op in ("put", "get") for shape in shapes):
            for nbytes in (n for n in sizes if self.alone and n >= 8 * shape[1]):
                if shape == (1, 1) and nbytes == 1 << 20:
                    continue  # the engine's, as of 16 MiB
                dest, source = (shmem.as_argument(a) for a in (self.dest, self.source))
                kernel = kernel_of("move", (op, shape[0] > 1))
                times = []
                for at in self.places(nbytes):
                    parts = dest[at : at + nbytes], source[at : at + nbytes]
                    times.append(self.clock.alone(kernel, shape, *parts, 1, budget_us=300))
                self.found[op, nbytes, shape] = statistics.fmean(times)
                if (op, nbytes, shape) == ("get", 8, (1, 1)):
                    self.by_line = times
        pyshmem.barrier_all()

    def meet(self) -> None:
        """Meetings, and collectives of the world by one block."""
        for name in MEETINGS:
            shape = (32 if name.endswith("group") else 1, 1)
            us = self.clock.together(kernel_of("meet", name), shape, self.often)
            self.found[name, 0, shape] = us
        shape = (32, 1) if self.clock.simulated else (1024, 1)
        arrays = (shmem.as_argument(a.view(np.float32)) for a in (self.dest, self.source))
        dest, source = arrays
        for name in EXCHANGES:
            for nbytes in (8, 256) if self.clock.simulated else (8, 4096, 256 << 10, 2 << 20):
                kernel, count = kernel_of("exchange", name), 200 if nbytes < 100_000 else 20
                times = []
                for at in self.places(nbytes)[:6]:
                    parts = dest[at // 4 :], source[at // 4 :]
                    us = self.clock.together(kernel, shape, count, *parts, nbytes // 4)
                    times.append(us)
                self.found[name, nbytes, shape] = statistics.fmean(times)

    def signal(self) -> None:
        """Answers by signals, with data and without, and an atomic."""
        sig, counter = pyshmem.new_signal(heap="device"), pyshmem.zeros(1, int, heap="device")
        shape = (32, 1) if self.clock.simulated else (1024, 1)

        def least(kernel: Any, shape: Shape, *arguments: Any) -> float:
            times = []
            for _ in range(2 if self.clock.simulated else 4):  # every run needs the signal at 0
                pyshmem.barrier_all()
                pyshmem.put(sig, np.zeros(1, np.uint64), self.clock.job.my_pe)
                pyshmem.barrier_all()
                times.append(self.clock.once(kernel, shape, self.often, *arguments, sig))
            return min(times[1:])

        self.found["signal", 8, (1, 1)] = least(kernels.signal_pingpong, (1, 1))
        for nbytes in (8, 64 << 10):
            pair = (shmem.as_argument(a)[:nbytes] for a in (self.dest, self.source))
            us = least(kernels.put_signal_pingpong, shape, *pair)
            self.found["put_signal", nbytes, shape] = us
        pyshmem.barrier_all()
        if self.alone:
            us = self.clock.alone(kernels.fetch_add, (1, 1), shmem.as_argument(counter), 1)
            self.found["fetch_add", 8, (1, 1)] = us
        pyshmem.barrier_all()


def main() -> None:
    found: dict[Figure, dict[str, list[float]]] = {}
    lines: dict[str, list[float]] = {name: [] for name in HEAPS}
    held = []
    for turn in range(TURNS + 1):  # the first compiles
        for heap in reversed(HEAPS) if turn % 2 else HEAPS:
            os.environ["PYSHMEM_DEVICE_HEAP_GROWS"] = HEAPS[heap]
            with pyshmem.init() as job:
                if job.n_pes != 2:
                    raise SystemExit("heap_kinds.py measures two PEs")
                state = pyshmem.heap_info("device")
                made = Turn(job, turn)
                made.move()
                made.meet()
                made.signal()
                if job.device == "cuda":  # the setting has had its effect
                    assert (state.memory < state.nbytes) == (heap == "grows"), state
            if turn:
                lines[heap] += made.by_line
            for figure, us in made.found.items() if turn else ():
                found.setdefault(figure, {name: [] for name in HEAPS})[heap].append(us)
        if not made.clock.simulated:
            held.append(cuda.device_array(HELD, np.uint8))
    for heap, each in lines.items() if made.alone and lines["fixed"] else ():
        facts = {"least": min(each), "mean": statistics.fmean(each), "most": max(each)}
        row = {"operation": "get by line", "bytes": 8, "heap": heap, "places": len(each)}
        print(json.dumps(row | {name: round(us, 4) for name, us in facts.items()}))
    for (name, nbytes, (threads, blocks)), times in found.items() if made.alone else ():
        medians = {heap: round(statistics.median(values), 4) for heap, values in times.items()}
        row = {"operation": name, "bytes": nbytes, "threads": threads, "blocks": blocks, **medians}
        ratio = round(medians["grows"] / medians["fixed"], 4)
        print(json.dumps(row | {"ratio": ratio, "turns": TURNS}))


if __name__ == "__main__":
    main()
