# SPDX-License-Identifier: BSD-3-Clause
"""Put and get by stores, by copy engines, and by the way that the cutover table chooses."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

import pyshmem
from pyshmem import cutover
from pyshmem import device as shmem

from .kernels import mover
from .timing import Clock, Shape

#: Bytes moved by the whole grid.
SIZES = (*(8 << (3 * k) for k in range(8)), 64 << 20)
SIZES_SIMULATED = (8, 1024, 65536)
#: Bytes of all blocks of a grid that ``tune`` goes up to.
MOST = 64 << 20
ALL_SHAPES: tuple[Shape, ...] = tuple(product(cutover.THREADS, cutover.BLOCKS))
#: Those that are measured unless all are asked for.
SHAPES: tuple[Shape, ...] = (
    *((1, 1), (32, 1), (128, 1), (1024, 1), (1024, 8), (1024, 32), (1024, 132)),
)
SHAPES_SIMULATED: tuple[Shape, ...] = ((1, 1), (32, 1), (32, 2))

#: What the cutover is forced to; the way that is chosen by the table has no name in rows.
WAYS: dict[str, int | None] = {"stores": cutover.NEVER, "engine": 0, "": None}

#: By operation: by one thread, by a block.
ROUTINES = {
    "put": (shmem.put, shmem.put_work_group),
    "get": (shmem.get, shmem.get_work_group),
}


def grid_bytes(nbytes: int, blocks: int) -> int:
    """``nbytes``, less what does not divide into equal parts that 16-byte loads can take."""
    part = nbytes // blocks
    return blocks * (part // 16 * 16 if part >= 16 else part)


@contextlib.contextmanager
def by(op: str, way: str) -> Iterator[None]:
    """Inside, transfers take this way."""
    nbytes = WAYS[way]
    with cutover.forced(op, nbytes) if nbytes is not None else contextlib.nullcontext():
        yield


class Transfers:
    """Two buffers on every PE, and the kernels that move one to the other's place on a peer."""

    def __init__(self, clock: Clock, most: int) -> None:
        self.clock = clock
        self.dest, self.source = (
            pyshmem.zeros(most, dtype=np.uint8, heap="device") for _ in range(2)
        )
        self._arguments = tuple(shmem.as_argument(array) for array in (self.dest, self.source))
        self._kernels: dict[tuple[str, bool], Any] = {}

    def name(self, op: str, shape: Shape) -> str:
        """The routine that a shape calls: one thread shares its call with nobody."""
        return op if shape[0] == 1 else f"{op}_work_group"

    def time(self, op: str, shape: Shape, nbytes: int, peer: int, budget_us: float = 3000) -> float:
        """Microseconds until ``nbytes`` are delivered; ``budget_us``: of one of the runs."""
        wide = shape[0] > 1
        if (op, wide) not in self._kernels:
            self._kernels[op, wide] = mover(ROUTINES[op][wide])
        nbytes = grid_bytes(nbytes, shape[1])
        dest, source = (array[:nbytes] for array in self._arguments)
        return self.clock.alone(
            self._kernels[op, wide], shape, dest, source, peer, budget_us=budget_us
        )

    def free(self) -> None:
        """Gives the buffers back; all PEs."""
        pyshmem.free(self.dest)
        pyshmem.free(self.source)


def measure(clock: Clock, ops: tuple[str, ...], shapes: tuple[Shape, ...] | None = None) -> None:
    """Rows of PE 0 to PE 1, the other PEs idle."""
    sizes = SIZES_SIMULATED if clock.simulated else SIZES
    shapes = shapes or (SHAPES_SIMULATED if clock.simulated else SHAPES)
    transfers = Transfers(clock, sizes[-1])
    pyshmem.barrier_all()
    if clock.job.my_pe == 0:
        for op, shape, nbytes in product(ops, shapes, sizes):
            if nbytes < 8 * shape[1]:
                continue
            least = dict.fromkeys(WAYS, math.inf)
            for way in WAYS if clock.simulated else (*WAYS, *WAYS):  # in turns: clocks drift
                with by(op, way):
                    least[way] = min(least[way], transfers.time(op, shape, nbytes, 1))
            for way, us in least.items():
                clock.emit(transfers.name(op, shape), nbytes, shape, us, way)
    pyshmem.barrier_all()
    transfers.free()
