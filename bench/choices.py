# SPDX-License-Identifier: BSD-3-Clause
"""How good the measured choices between stores and copy engines are: chosen against the best way.

Run: python -m pyshmem run -n 2 bench/choices.py [--as-gpu NAME] [--only PARTS]. PE 0 prints JSON lines.
Every figure is a median of rounds in which ways take turns; all PEs transfer at once, each to its right
neighbour, and the slowest counts.

points: puts of a block and of a stream by what the table chooses, against the copy engine.
rows: both ways of put and get for every shape over bytes, and what rows of the shipped table, of the
nearest other kind by rule, of ``tune`` and of ``tune quick`` make of them.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import click
import cupy
from pyshmem.bench.cupy_streams import external
from options import some_of

import pyshmem
from pyshmem import cutover
from pyshmem.bench import put_get
from pyshmem.bench.calibrate import Calibration
from pyshmem.bench.put_get import MOST
from pyshmem.bench.timing import Clock, Shape, slowest
from pyshmem.bench.tune import Tuner
from pyshmem.host.tuning import gpus, table

POINTS = (((1024, 1), 16 << 20), ((1, 1), 64 << 20), ((32, 1), 16 << 20))
SIZES = [1 << k for k in range(9, 25)]
ROUNDS = 5
#: What a choice may cost against the best way, and rows by rule against a GPU's own.
NEAR, BY_RULE = 1.05, 1.15

#: By operation and shape: bytes of a call, and of both ways the microseconds.
Times = dict[tuple[str, Shape], dict[int, tuple[float, float]]]


class Measured:
    """What this job measures, and says on PE 0."""

    def __init__(self, job: Any) -> None:
        self.job, self.clock = job, Clock(job)
        self.right = (job.my_pe + 1) % job.n_pes
        self.failed = 0

    def say(self, **row: Any) -> None:
        if self.job.my_pe == 0:
            print(json.dumps(row), flush=True)

    def verdict(self, what: str, value: float, limit: float, **more: Any) -> None:
        self.failed += value > limit
        self.say(verdict=what, value=round(value, 3), limit=limit, passed=value <= limit, **more)

    def points(self) -> None:
        """Large puts by what is chosen, against the engine."""
        transfers = put_get.Transfers(self.clock, MOST)
        for shape, nbytes in POINTS:
            found: dict[str, list[float]] = {"chosen": [], "engine": []}
            for _ in range(2 * ROUNDS - 1):
                for name, way in (("chosen", ""), ("engine", "engine")):
                    with put_get.by("put", way):
                        pyshmem.barrier_all()
                        found[name].append(transfers.time("put", shape, nbytes, self.right))
            us = dict(
                zip(found, slowest([statistics.median(v) for v in found.values()]), strict=True)
            )
            name = f"put {shape[1]}x{shape[0]} of {nbytes >> 20} MiB, chosen over engine"
            self.verdict(name, us["chosen"] / us["engine"], NEAR, us=us)
        transfers.free()
        self.stream_put(4 << 20)

    def stream_put(self, nbytes: int) -> None:
        """A put on a stream, against a copy of the driver's on the same stream."""
        dest, source = (pyshmem.zeros(nbytes, "uint8", heap="device") for _ in range(2))
        there, stream = pyshmem.ptr(dest, self.right), pyshmem.streams.Stream()
        theirs = external(cupy, stream.handle)

        def by_put() -> None:
            pyshmem.put(dest, source, self.right, stream=stream)

        def by_engine() -> None:
            args = there.data.ptr, source.data.ptr, nbytes, cupy.cuda.runtime.memcpyDefault
            cupy.cuda.runtime.memcpyAsync(*args, stream.handle)

        found: dict[str, list[float]] = {"put": [], "engine": []}
        for _ in range(2 * ROUNDS - 1):
            for name, call in (("put", by_put), ("engine", by_engine)):
                pyshmem.barrier_all()
                found[name].append(_us(theirs, call, 20))
        us = dict(zip(found, slowest([statistics.median(v) for v in found.values()]), strict=True))
        name = f"put on a stream of {nbytes >> 20} MiB over the engine"
        self.verdict(name, us["put"] / us["engine"], NEAR, us=us)

    def rows(self) -> None:
        """What rows from several places make of both ways' times."""
        gpu, files = gpus.of_this_pe(), list(table.files())
        shipped = table.read(*files[0])
        others = table.text_of([one for one in shipped if one.gpu != gpu.name])
        peers = self.job.n_pes - 1
        rows = {
            "its own": {op: one.rows for op, one in table.choices(gpu, peers, files).items()},
            "by rule": {
                op: one.rows for op, one in table.choices(gpu, peers, [(others, "")]).items()
            },
        }
        calibration, begin = Calibration(self.clock), time.perf_counter()
        rows["tune quick"] = calibration.rows()
        self.say(quick_s=calibration.seconds, with_compiling_s=time.perf_counter() - begin)
        self.verdict("tune quick, seconds", calibration.seconds, 1.5)
        begin = time.perf_counter()
        rows["tune"] = Tuner(self.clock, lambda: None).rows()
        self.verdict("tune, seconds", time.perf_counter() - begin, 60)
        times = self.both_ways(rows)
        for name, given in rows.items():
            self.judge(f"{name}, over the best way", NEAR, times, given, None)
        for name in ("by rule", "tune", "tune quick"):
            self.judge(f"{name}, over its own", BY_RULE, times, rows[name], rows["its own"])

    def both_ways(self, rows: dict[str, dict[str, table.Rows]]) -> Times:
        """Medians of both ways, over sizes and where any of the rows changes."""
        transfers, found = put_get.Transfers(self.clock, MOST), Times()
        for op in cutover.SHAPED:
            for shape in put_get.ALL_SHAPES:
                name = cutover.row_name(op, shape)
                cuts = {cutover.size_of(op, each[name]) for each in rows.values()}
                sizes = {s for s in (*SIZES, *cuts) if 0 < s * shape[1] <= MOST}
                found[op, shape] = self._of_shape(op, shape, sorted(sizes), transfers)
                for size, us in found[op, shape].items():
                    self.say(op=name, bytes=size, stores=round(us[0], 3), engine=round(us[1], 3))
        transfers.free()
        return found

    def _of_shape(
        self, op: str, shape: Shape, sizes: list[int], transfers: put_get.Transfers
    ) -> dict[int, tuple[float, float]]:
        ways: list[list[list[float]]] = [[], []]
        for _ in range(3):
            for way, taken in zip(("stores", "engine"), ways, strict=True):
                with put_get.by(op, way):
                    pyshmem.barrier_all()
                    taken.append(
                        [
                            transfers.time(op, shape, size * shape[1], self.right, 300)
                            for size in sizes
                        ]
                    )
        medians = [slowest([statistics.median(v) for v in zip(*t, strict=True)]) for t in ways]
        return dict(zip(sizes, zip(*medians, strict=True), strict=True))

    def judge(
        self, what: str, limit: float, times: Times, rows: dict[str, table.Rows],
        against: dict[str, table.Rows] | None,
    ) -> None:  # fmt: skip
        """The worst of times by ``rows`` over those by ``against``, or over the faster way."""
        ratios = []
        for (op, shape), by_size in times.items():
            name = cutover.row_name(op, shape)
            for size, us in by_size.items():
                taken = us[int(size >= cutover.size_of(op, rows[name]))]
                best = (
                    min(us)
                    if against is None
                    else us[int(size >= cutover.size_of(op, against[name]))]
                )
                ratios.append((taken / best, f"{name}, {size} B", size))
        worst, over = max(ratios), sum(ratio > limit for ratio, _, _ in ratios)
        at_sizes = max(one for one in ratios if one[2] in SIZES)
        self.verdict(
            what, worst[0], limit, where=worst[1], over=over, of=len(ratios),
            mean=round(statistics.fmean(ratio for ratio, _, _ in ratios), 4),
            at_powers_of_two=round(at_sizes[0], 3), where_of_those=at_sizes[1],
        )  # fmt: skip


def _us(stream: Any, call: Callable[[], None], calls: int) -> float:
    """Microseconds a call, back to back on a stream of CuPy's."""
    call()
    begin, end = cupy.cuda.Event(), cupy.cuda.Event()
    begin.record(stream)
    for _ in range(calls):
        call()
    end.record(stream)
    end.synchronize()
    return float(cupy.cuda.get_elapsed_time(begin, end)) * 1e3 / calls


@click.command()
@click.option("--as-gpu", help="Rows are looked up for a GPU of this name, which no table has.")
@some_of("--only", ["points", "rows"], "What is measured")
def main(as_gpu: str | None, only: tuple[str, ...]) -> None:
    """Measures, and says what failed."""
    if as_gpu:
        real = gpus.of_this_pe
        gpus.of_this_pe = lambda: gpus.Gpu(as_gpu, gpus.kind(as_gpu, 110, real().kind.link))
    with pyshmem.init(device="cuda", device_heap_size="1G") as job:
        measured, gpu = Measured(job), gpus.of_this_pe()
        measured.say(gpu=gpu.name, kind=gpu.kind, origin=cutover.origin("put"), pes=job.n_pes)
        for part in only:
            getattr(measured, part)()
        measured.say(failed=measured.failed)


if __name__ == "__main__":
    main()
