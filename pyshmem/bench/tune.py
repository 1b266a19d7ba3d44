# SPDX-License-Identifier: BSD-3-Clause
"""What each PE of ``python -m pyshmem tune`` runs: where the copy engine overtakes the stores.

All PEs transfer at once, each with its right neighbour, and the slowest counts.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import pyshmem
from pyshmem import cutover
from pyshmem import device as shmem

from . import kernels, paths
from .timing import Clock, Shape, say

#: Makes tables of the text of a file, which it names in errors.
Reader = Callable[[str, str], list[dict[str, Any]]]
#: Bytes of one call; a grid's buffers hold them for all its blocks up to ``MOST``.
CALL_SIZES = tuple(1 << k for k in range(9, 25, 2))
MOST = 64 << 20
REDUCE_SIZES = tuple(1 << k for k in range(9, 21, 2))


def crossing(sizes: list[int], plain: list[float], other: list[float]) -> int | None:
    """From which size on ``other`` is no slower, None when it never is.

    Between two measured sizes the logarithm of the ratio is taken as a straight line.
    """
    ratios = [b / a for a, b in zip(plain, other, strict=True)]
    if not ratios or ratios[-1] > 1:
        return None
    last = next((k for k in reversed(range(len(ratios))) if ratios[k] > 1), -1)
    if last < 0:
        return sizes[0]
    low, high = np.log(ratios[last]), np.log(ratios[last + 1])
    exponent = np.interp(0, [-low, -high], np.log2([sizes[last], sizes[last + 1]]))
    return int(2**exponent) // 16 * 16


def with_table(
    text: str | None, table: dict[str, Any], where: str, read: Reader = cutover.read_tables
) -> str:
    """The file's text with this table in it, in place of one for the same GPU and number of PEs.

    Raises: ValueError (``read``: the text is no such file).
    """
    tables = read(text, where) if text is not None else []
    key = (table["gpu"], table["n_pes"])
    tables = [old for old in tables if (old["gpu"], old["n_pes"]) != key]
    return json.dumps({"format": 1, "tables": [*tables, table]}, indent=1) + "\n"


def _slowest(values: list[float]) -> list[float]:
    source = pyshmem.zeros(max(len(values), 1), dtype=np.float64)
    dest = pyshmem.zeros_like(source)
    source[: len(values)] = values
    pyshmem.max_reduce(dest, source)
    result = [float(value) for value in dest[: len(values)]]
    pyshmem.free(source)
    pyshmem.free(dest)
    return result


def _two_ways(
    op: str, sizes: list[int], time: Callable[[int], float]
) -> tuple[list[float], list[float]]:
    """Microseconds below and beyond the cutover, the slowest PE's, for each size."""
    times: tuple[list[float], list[float]] = ([], [])
    for size in sizes:
        for way, result in zip((cutover.NEVER, 0), times, strict=True):
            pyshmem.barrier_all()
            with cutover.forced(op, way):
                pyshmem.barrier_all()
                result.append(time(size))
                pyshmem.barrier_all()
    return _slowest(times[0]), _slowest(times[1])


class Tuner:
    """Measures a table with ``clock``, telling ``step`` after each entry."""

    def __init__(self, clock: Clock, step: Callable[[], None]) -> None:
        self.clock, self._step = clock, step
        simulated = clock.simulated
        self.shapes = ((1, 1), (32, 1)) if simulated else paths.ALL_SHAPES
        self.sizes = [512, 65536] if simulated else list(CALL_SIZES)
        self.reduce_sizes = [512, 4096] if simulated else list(REDUCE_SIZES)
        self.steps = 2 * len(self.shapes) + 2

    def _rows(self, op: str, transfers: paths.Transfers) -> list[list[int | None]]:
        job = self.clock.job
        right = (job.my_pe + 1) % job.n_pes
        entries: dict[Shape, int | None] = {}
        for shape in self.shapes:
            blocks = shape[1]
            sizes = [size for size in self.sizes if size * blocks <= MOST]

            def time(size: int, shape: Shape = shape) -> float:
                return transfers.time(op, shape, size * shape[1], right)

            plain, engine = _two_ways(op, sizes, time)
            entries[shape] = crossing(sizes, plain, engine)
            self._step()
        return [[entries.get((t, b)) for b in cutover.BLOCKS] for t in cutover.THREADS]

    def _collective(self, op: str) -> int | None:
        """Where a block's ``sum_reduce`` goes another way; of ``reduce``, without flags in data."""
        source, dest = (
            pyshmem.zeros(self.reduce_sizes[-1] // 4, dtype=np.float32, heap="device")
            for _ in range(2)
        )
        arguments = [shmem.as_argument(array) for array in (dest, source)]
        kernel = kernels.exchange(shmem.sum_reduce_work_group)
        shape = (32, 1) if self.clock.simulated else (1024, 1)
        with cutover.forced("ll", 0):
            below, beyond = _two_ways(
                op,
                self.reduce_sizes,
                lambda size: self.clock.together(kernel, shape, 50, *arguments, size // 4),
            )
        pyshmem.free(source)
        pyshmem.free(dest)
        self._step()
        return crossing(self.reduce_sizes, below, beyond)

    def table(self) -> dict[str, Any]:
        """A table for a file of ``cutover``. All PEs."""
        transfers = paths.Transfers(self.clock, 1 << 17 if self.clock.simulated else MOST)
        rows = {op: self._rows(op, transfers) for op in cutover.SHAPED}
        transfers.free()
        job = self.clock.job
        return {
            "gpu": cutover.gpu_name(),
            "n_pes": job.n_pes,
            "source": "python -m pyshmem tune",
            **rows,
            "reduce": self._collective("reduce"),
            "ll": self._collective("ll"),
        }


def show(table: dict[str, Any]) -> None:
    """The table, to the user."""

    def text(size: int | None) -> str:
        return "never" if size is None else f"{size:,}"

    for op in cutover.SHAPED:
        grid = Table(title=f"{op}: a copy engine from so many bytes of a call on")
        for title in ("threads", *(f"{blocks} blocks" for blocks in cutover.BLOCKS)):
            grid.add_column(title, justify="right")
        for threads, row in zip(cutover.THREADS, table[op], strict=True):
            grid.add_row(str(threads), *map(text, row))
        Console().print(grid)
    print(f"reduce: shares from {text(table['reduce'])} bytes on")
    print(f"ll: flags behind the data, no longer in it, from {text(table['ll'])} bytes on")


def write(table: dict[str, Any], path: Path, read: Reader = cutover.read_tables) -> None:
    """Adds the table to the file, which is replaced as a whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    old = path.read_text(encoding="utf-8") if path.is_file() else None
    new = path.with_name(f"{path.name}.{os.getpid()}")
    new.write_text(with_table(old, table, str(path), read), encoding="utf-8")
    new.replace(path)


@click.command()
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path))
def main(output: Path | None) -> None:
    """Measures, and PE 0 writes and prints."""
    with (
        pyshmem.init() as job,
        Progress(console=Console(stderr=True), disable=job.my_pe != 0) as bar,
    ):
        if job.n_pes == 1:
            raise click.ClickException("tuning takes 2 PEs: -n 2")
        path = output or cutover.tune_file()
        clock = Clock(job)
        if job.my_pe == 0 and clock.simulated:
            say("On the simulator these figures are the simulator's: they say nothing about a GPU.")
        tuner = Tuner(clock, lambda: bar.advance(task))
        task = bar.add_task("tuning", total=tuner.steps)
        table = tuner.table()
        leader = job.my_pe == 0
    if leader:
        write(table, path)
        show(table)
        print(f"written to {path}")


if __name__ == "__main__":
    main()
