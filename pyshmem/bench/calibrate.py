# SPDX-License-Identifier: BSD-3-Clause
"""What each PE of ``python -m pyshmem tune quick`` runs: put and get both ways, in about a second.

Both ways' times are affine in the bytes, by parts, so that three sizes say where the two meet.
Reductions and flags in data are left to tables and rules: all PEs must have them alike, and they may
decide the bits of results.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import pyshmem
from pyshmem import cutover
from pyshmem.host.tuning import table

from . import put_get
from .put_get import MOST
from .timing import Clock, Shape, slowest

#: Bytes of one call.
SIZES = (8 << 10, 128 << 10, 1 << 20)
#: What a timing takes at least, in microseconds; ``tune`` takes ten times as long.
_BUDGET = 300
#: A crossing beyond this is noise of two ways that are as fast.
_FARTHEST = 16 << 20


def crossing(sizes: Sequence[int], plain: Sequence[float], other: Sequence[float]) -> int | None:
    """From which size on ``other`` is no slower, None when it never is; straight lines between sizes."""
    gain = [a - b for a, b in zip(plain, other, strict=True)]
    last = next((k for k in reversed(range(len(gain))) if gain[k] < 0), None)
    if last is None:
        return sizes[0]
    if last + 1 < len(gain):
        low, high = last, last + 1
    else:
        low, high = max(last - 1, 0), last  # the last line, extended
    growth = (gain[high] - gain[low]) / max(sizes[high] - sizes[low], 1)
    if growth <= 0:
        return None
    found = int(sizes[high] - gain[high] / growth) // 16 * 16
    return found if found <= _FARTHEST else None


class Calibration:
    """Measures rows of put and get with ``clock``.

    Attributes:
        seconds: what the measuring took, without what was compiled before.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock, self.seconds = clock, 0.0
        self.shapes = ((1, 1), (32, 1)) if clock.simulated else put_get.ALL_SHAPES
        self.sizes = (512, 65536) if clock.simulated else SIZES

    def _sizes_of(self, shape: Shape) -> list[int]:
        return [size for size in self.sizes if size * shape[1] <= MOST]

    def rows(self) -> dict[str, table.Rows]:
        """Rows of a table, by operation. All PEs."""
        transfers = put_get.Transfers(self.clock, 1 << 17 if self.clock.simulated else MOST)
        right = (self.clock.job.my_pe + 1) % self.clock.job.n_pes
        for op in cutover.SHAPED:
            for shape in self.shapes[0], self.shapes[-1]:  # compiles both kernels of the operation
                transfers.time(op, shape, self.sizes[0] * shape[1], right, _BUDGET)
        pyshmem.barrier_all()
        begin = time.perf_counter()
        times = [
            self._times(op, way, transfers, right)
            for op in cutover.SHAPED
            for way in (cutover.NEVER, 0)
        ]
        pyshmem.barrier_all()
        self.seconds = time.perf_counter() - begin
        rows: dict[str, table.Rows] = {}
        for op, plain, engine in zip(cutover.SHAPED, times[::2], times[1::2], strict=True):
            at = 0
            for shape in self.shapes:
                sizes = self._sizes_of(shape)
                part = slice(at, at + len(sizes))
                at += len(sizes)
                size = crossing(sizes, plain[part], engine[part])
                rows[cutover.row_name(op, shape)] = cutover.rows_of_size(op, size)
        transfers.free()
        return rows

    def _times(self, op: str, way: int, transfers: put_get.Transfers, right: int) -> list[float]:
        """Microseconds of all shapes and sizes one way, the slowest PE's."""
        with cutover.forced(op, way):
            pyshmem.barrier_all()
            found = [
                transfers.time(op, shape, size * shape[1], right, _BUDGET)
                for shape in self.shapes
                for size in self._sizes_of(shape)
            ]
            return slowest(found)
