# SPDX-License-Identifier: BSD-3-Clause
"""What each PE of ``python -m pyshmem tune`` runs: where the copy engine overtakes the stores.

All PEs transfer at once, each with its right neighbour, and the slowest counts.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path

import click
import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import pyshmem
from pyshmem import cutover
from pyshmem import device as shmem
from pyshmem.host.tuning import gpus, table

from . import kernels, put_get
from .calibrate import Calibration
from .put_get import MOST
from .timing import Clock, Shape, say, slowest

#: Bytes of one call; a grid's buffers hold them for all its blocks up to ``MOST``.
CALL_SIZES = tuple(1 << k for k in range(9, 25, 2))
#: How often the distance between two sizes is halved where the ways cross.
_HALVINGS = 3
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


def nearer(
    sizes: list[int], measure: Callable[[list[int]], tuple[list[float], list[float]]]
) -> tuple[list[int], list[float], list[float]]:
    """Times of both ways at ``sizes``, and at some between the two where the ways cross.

    A time may have a step there, where what is sent no longer fits a cache: a line would not see it.
    """
    plain, other = measure(sizes)
    sizes = list(sizes)
    for _ in range(_HALVINGS):
        slower = [k for k in range(len(sizes)) if other[k] > plain[k]]
        if not slower or slower[-1] + 1 == len(sizes):  # they do not cross
            break
        at = slower[-1] + 1
        middle = int((sizes[at - 1] * sizes[at]) ** 0.5) // 16 * 16
        ours, theirs = measure([middle])
        sizes.insert(at, middle)
        plain.insert(at, ours[0])
        other.insert(at, theirs[0])
    return sizes, plain, other


def _two_ways(
    op: str, sizes: list[int], *, time: Callable[[int], float]
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
    return slowest(times[0]), slowest(times[1])


class Tuner:
    """Measures a table with ``clock``, telling ``step`` after each entry."""

    def __init__(self, clock: Clock, step: Callable[[], None]) -> None:
        self.clock, self._step = clock, step
        simulated = clock.simulated
        self.shapes = ((1, 1), (32, 1)) if simulated else put_get.ALL_SHAPES
        self.sizes = [512, 65536] if simulated else list(CALL_SIZES)
        self.reduce_sizes = [512, 4096] if simulated else list(REDUCE_SIZES)
        self.steps = 2 * len(self.shapes) + 2

    def _sizes(self, op: str, transfers: put_get.Transfers) -> dict[Shape, int | None]:
        """By shape, from how many bytes a copy engine is no slower."""
        job = self.clock.job
        right = (job.my_pe + 1) % job.n_pes
        entries: dict[Shape, int | None] = {}
        for shape in self.shapes:
            blocks = shape[1]
            sizes = [size for size in self.sizes if size * blocks <= MOST]

            def time(size: int, shape: Shape = shape) -> float:
                return transfers.time(op, shape, size * shape[1], right)

            entries[shape] = crossing(*nearer(sizes, functools.partial(_two_ways, op, time=time)))
            self._step()
        return entries

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
                time=lambda size: self.clock.together(kernel, shape, 50, *arguments, size // 4),
            )
        pyshmem.free(source)
        pyshmem.free(dest)
        self._step()
        return crossing(self.reduce_sizes, below, beyond)

    def rows(self) -> dict[str, table.Rows]:
        """Rows of a table, by operation. All PEs."""
        transfers = put_get.Transfers(self.clock, 1 << 17 if self.clock.simulated else MOST)
        rows = {}
        for op in cutover.SHAPED:
            sizes = self._sizes(op, transfers)
            for shape in put_get.ALL_SHAPES:
                rows[cutover.row_name(op, shape)] = cutover.rows_of_size(op, sizes.get(shape))
        transfers.free()
        for op in ("reduce", "ll"):
            rows[op] = cutover.rows_of_size(op, self._collective(op))
        return rows


def table_of(rows: dict[str, table.Rows], source: str) -> table.Table:
    """Rows that were measured in this job, as a table of a file."""
    gpu = gpus.of_this_pe()
    return table.Table(gpu.name, gpu.kind.link, pyshmem.n_pes() - 1, source, rows)


def show(measured: table.Table) -> None:
    """The table, to the user."""

    def text(op: str, name: str, unit: str = "{}") -> str:
        rows = measured.rows.get(name)
        size = cutover.size_of(op, rows) if rows else cutover.NEVER
        return "never" if size == cutover.NEVER else unit.format(f"{size:,}")

    for op in cutover.SHAPED:
        grid = Table(title=f"{op}: by a copy engine from so many bytes a call")
        grids = (f"{blocks} block{'s' * (blocks > 1)}" for blocks in cutover.BLOCKS)
        for title in ("threads", *grids):
            grid.add_column(title, justify="right")
        for threads in cutover.THREADS:
            names = (cutover.row_name(op, (threads, blocks)) for blocks in cutover.BLOCKS)
            grid.add_row(str(threads), *(text(op, name) for name in names))
        Console().print(grid)
    if "reduce" in measured.rows:
        unit = "from {} bytes on"
        print(f"reduce, each PE sums a share: {text('reduce', 'reduce', unit)}")
        print(f"ll, flags behind the data and no longer in it: {text('ll', 'll', unit)}")


def write(measured: table.Table, path: Path) -> None:
    """Adds the table to the file, which is replaced as a whole.

    Raises: ValueError (there is a file that is no such one).
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    old = table.read(path.read_text(encoding="utf-8"), str(path)) if path.is_file() else []
    new = path.with_name(f"{path.name}.{os.getpid()}")
    new.write_text(table.text_of(table.merged(old, measured)), encoding="utf-8")
    new.replace(path)


@click.command()
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--quick", is_flag=True)
def main(output: Path | None, quick: bool) -> None:
    """Measures, and PE 0 writes and prints."""
    with (
        pyshmem.init() as job,
        Progress(console=Console(stderr=True), disable=quick or job.my_pe != 0) as bar,
    ):
        if job.n_pes == 1:
            raise click.ClickException("tuning takes 2 PEs: -n 2")
        clock, took = Clock(job), ""
        if job.my_pe == 0 and clock.simulated:
            say("On the simulator these figures are the simulator's: they say nothing about a GPU.")
        if quick:
            path, calibration = output or table.quick_file(), Calibration(clock)
            rows, source = calibration.rows(), f"python -m pyshmem tune quick -n {job.n_pes}"
            took = f", measured in {calibration.seconds:.2f} s"
        else:
            path = output or table.tune_file()
            tuner = Tuner(clock, lambda: bar.advance(task))
            task = bar.add_task("tuning", total=tuner.steps)
            rows, source = tuner.rows(), f"python -m pyshmem tune -n {job.n_pes}"
        measured, leader = table_of(rows, source), job.my_pe == 0
    if leader:
        write(measured, path)
        show(measured)
        print(f"written to {path}{took}")


if __name__ == "__main__":
    main()
