# SPDX-License-Identifier: BSD-3-Clause
"""One PE of ``bench/streams.py --tune``: ways and grids of collectives on a stream, measured in graphs.

PE 0 prints a JSON line for the best of each operation and size (with ``--all`` for each candidate), with
whether the results were right, and last the rows that follow: ``"stream ..."`` of a table of
``pyshmem/data/tuning.json``.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from pyshmem.bench.streams_pe import QUICK, Pyshmem, calls_of, wanted

SIZES = [
    8,
    1 << 10,
    1 << 12,
    1 << 14,
    1 << 16,
    1 << 17,
    1 << 18,
    1 << 19,
    1 << 20,
    3 << 19,
    1 << 21,
]
SIZES += [1 << 22, 1 << 23, 1 << 24, 1 << 26, 1 << 28]
if QUICK:
    SIZES = [8, 1 << 12, 1 << 14]
if os.environ.get("BENCH_SIZES"):
    SIZES = [int(size) for size in os.environ["BENCH_SIZES"].split(",")]
REPEAT = 3
OPERATIONS = ("reduce", "fcollect", "reduce_scatter", "alltoall", "broadcast")
NAMES = {"reduce": "all_reduce", "fcollect": "all_gather", "alltoall": "all_to_all"}
OPS = [op for op in OPERATIONS if wanted(NAMES.get(op, op))]
#: What a warp sends at a time with flags in it, the most that is sent so, the least that is not.
BUNDLE, LL_MOST, DIRECT_LEAST = 1536, 9 << 18, 1 << 17
ENGINE_LEAST = 1 << 21  # from where copy engines are tried, of what is only moved
MOST_BLOCKS = 128
#: A candidate of an earlier size is kept where it costs no more than so much.
TOLERANCE = 1.01


class Grid(NamedTuple):
    way: str
    blocks: int
    threads: int


def candidates(op: str, nbytes: int, others: int) -> Iterator[Grid]:
    """For ``nbytes`` from each PE to each."""
    sent = nbytes * max(others, 1)
    lanes = -(-nbytes // BUNDLE) * 32 * (1 if "reduce" in op else max(others, 1))
    if sent <= LL_MOST:  # with no more blocks than have work
        sizes = [size for size in (32, 64, 128, 256, 512) if MOST_BLOCKS * size >= lanes]
        fewer = [size for size in sizes if size < 2 * lanes]
        yield from (Grid("ll", MOST_BLOCKS, size) for size in fewer or sizes[:1] or (512,))
    if sent >= DIRECT_LEAST or QUICK:
        for blocks in (8, 16, 32, 64, 96, 128):
            if blocks * 4096 <= nbytes or blocks == 8:
                yield from (Grid("direct", blocks, threads) for threads in (256, 512))
    if "reduce" not in op and (sent >= ENGINE_LEAST or QUICK):
        yield Grid("engine", 1, 32)


def rows_of(found: list[tuple[int, dict[Grid, float]]]) -> list[list[Any]]:
    """The rows of an operation from the times at rising sizes: few, each up to between two sizes."""
    rows: list[list[Any]] = []
    kept: Grid | None = None
    for k, (sent, times) in enumerate(found):
        best = min(times, key=lambda grid: times[grid])
        if kept is None or times.get(kept, float("inf")) > TOLERANCE * times[best]:
            kept = best
            rows.append([0, *best])
        behind = found[k + 1][0] if k + 1 < len(found) else None
        rows[-1][0] = None if behind is None else int((sent * behind) ** 0.5) // 1024 * 1024 or sent
    return rows[:16] if len(rows) <= 16 else [*rows[:15], rows[-1]]


class Tuner(Pyshmem):
    """Tries each candidate in a graph of its own."""

    def tune(self) -> None:
        shmem = self.shmem
        reductions = "sum_reduce", "sum_reduce_scatter"
        shmem.streams.prepare("fcollect", "alltoall", "broadcast")
        shmem.streams.prepare(*reductions, dtype=[np.float32])
        found: dict[str, list[tuple[int, dict[Grid, float]]]] = {op: [] for op in OPS}
        for nbytes in SIZES:
            for op in OPS:
                self.of_operation(op, nbytes, found[op])
        rows = {op: rows_of(times) for op, times in found.items()}
        if self.first:
            print(json.dumps({"streams": rows}), flush=True)
        shmem.finalize()

    def of_operation(self, op: str, nbytes: int, found: list) -> None:
        shmem, n, me = self.shmem, self.pes, self.job.my_pe
        split = op not in ("reduce", "broadcast")
        count = max(nbytes // 4 // (n if split else 1), 1)
        x = shmem.full(count * n if split else count, me + 1, dtype=np.float32, heap="device")
        y = shmem.zeros(x.size, dtype=np.float32, heap="device")
        call = self.call_of(op, y, x, count)
        sent, times, right = 4 * count * max(n - 1, 1), {}, True
        for grid in candidates(op, 4 * count, n - 1):
            shmem.cutover.set_stream_rows(op, [("never", *grid)])
            times[grid] = self.most(self.median(call, nbytes, True))
            mine = self.is_right(op, y, count)
            if self.first and "--all" in sys.argv:
                print(
                    json.dumps({"tried": op, "bytes": nbytes, "us": times[grid], **grid._asdict()})
                )
            right = right and mine
        best = min(times, key=lambda grid: times[grid])
        shmem.cutover.set_stream_rows(op, [("never", *best)])
        eager = self.most(self.median(call, nbytes, False))
        wrong = self.most(float(not right))
        found.append((sent, times))
        row = {"peer": "pyshmem", "op": NAMES.get(op, op), "bytes": nbytes, "pes": n}
        row |= {"us_graph": round(times[best], 2), "us_eager": round(eager, 2), "way": best.way}
        row |= {"grid": f"{best.blocks}x{best.threads}", "right": not wrong}  # blocks at most
        if self.first:
            print(json.dumps(row), flush=True)
        shmem.free(y)
        shmem.free(x)

    def call_of(self, op: str, y: Any, x: Any, count: int) -> Callable[[], Any]:
        shmem, stream = self.shmem, {"nelems": count, "stream": self.stream}
        return {
            "reduce": lambda: shmem.sum_reduce(y, x, **stream),
            "reduce_scatter": lambda: shmem.sum_reduce_scatter(y, x, **stream),
            "fcollect": lambda: shmem.fcollect(y, x, **stream),
            "alltoall": lambda: shmem.alltoall(y, x, **stream),
            "broadcast": lambda: shmem.broadcast(y, x, 0, **stream),
        }[op]

    def median(self, call: Callable[[], Any], nbytes: int, graph: bool) -> float:
        return statistics.median(self.us(call, calls_of(nbytes), graph) for _ in range(REPEAT))

    def is_right(self, op: str, y: Any, count: int) -> bool:
        """Every PE's array holds its number + 1; looked at in some places, and emptied."""
        total = self.pes * (self.pes + 1) // 2
        blocks = op in ("fcollect", "alltoall")
        right = True
        for block in range(self.pes if blocks else 1):
            want = block + 1 if blocks else 1 if op == "broadcast" else total
            for at in {0, count // 3, count // 2, count - 1}:
                place = y[block * count + at : block * count + at + 1]
                right = right and float(self.shmem.to_numpy(place)[0]) == want
        y[:] = 0
        self.shmem.barrier_all()
        return right


if __name__ == "__main__":
    Tuner().tune()
