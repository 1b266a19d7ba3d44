# SPDX-License-Identifier: BSD-3-Clause
"""What each PE of ``python -m pyshmem tune fused`` runs: which algorithm of an operation is the fastest.

Every algorithm of an operation is timed in a CUDA graph, or back to back where it cannot be captured, at
sizes that grow; the slowest PE counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click
import torch
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import pyshmem
from pyshmem import fused
from pyshmem.fused._shared import algorithm as choice
from pyshmem.host.job.runtime import gpu_count
from pyshmem.host.tuning.table import as_rows, tune_file

from .torch_clock import TorchClock
from .tune import table_of, write

Call = Callable[[str], Any]


class Case(NamedTuple):
    """An operation at one size, as its rows count sizes, and a call of it by an algorithm."""

    operation: str
    nbytes: int
    algorithms: tuple[str, ...]
    call: Call
    graph: bool = True


def norms(clock: TorchClock) -> Iterator[Case]:
    """``all_reduce_rmsnorm``: bytes of ``x``."""
    hidden, most = (8192, 14) if clock.on_gpu else (64, 1)
    weight = clock.random(hidden)
    for power in range(most + 1):
        x, residual = clock.random(1 << power, hidden), clock.random(1 << power, hidden)

        def call(algorithm: str, x: Any = x, residual: Any = residual) -> Any:
            return fused.all_reduce_rmsnorm(x, weight, residual=residual, algorithm=algorithm)

        yield Case(
            "all_reduce_rmsnorm",
            x.nbytes,
            ("one_shot", "pull", "push", "two_shot"),
            call,
        )


def products(clock: TorchClock) -> Iterator[Case]:
    """Matrix products: bytes that arrive at a PE."""
    n = clock.job.n_pes
    width = 4096 if clock.on_gpu else 16
    w = clock.random(width, width)
    ways = "copy_engine", "persistent", "unfused"
    for rows in (32, 128, 512, 2048, 8192) if clock.on_gpu else (8, 16):
        shard, x = clock.random(rows, width), clock.random(rows * n, width)
        share = rows * (n - 1) * width * x.itemsize
        yield Case("all_gather_matmul", share, ways, _by(fused.all_gather_matmul, shard, w))
        yield Case("matmul_reduce_scatter", share, ways, _by(fused.matmul_reduce_scatter, x, w))
        yield Case("matmul_all_reduce", 2 * share, ways, _by(fused.matmul_all_reduce, x, w))


def moves(clock: TorchClock) -> Iterator[Case]:
    """Exchanges: bytes of a part."""
    n = clock.job.n_pes
    for power in range(10, 21 if clock.on_gpu else 12):
        part = torch.zeros(1 << power, dtype=torch.uint8, device=clock.device)
        whole = torch.zeros(n << power, dtype=torch.uint8, device=clock.device)
        ways = "ll", "simple"
        gather = fused.low_latency_all_gather
        yield Case("low_latency_all_gather", 1 << power, ways, _by(gather, part))
        yield Case("all_to_all", 1 << power, ways, _by(fused.all_to_all, whole))


def dispatches(clock: TorchClock) -> Iterator[Case]:
    """``expert_dispatch`` of tokens that nearly all go to all PEs: bytes of a PE's tokens."""
    hidden, k, most = (7168, 8, 16384) if clock.on_gpu else (32, 4, 16)
    for tokens in (most >> 4, most >> 3, most >> 2, most >> 1, most):
        x = clock.random(tokens, hidden)
        experts = 8 * clock.job.n_pes
        ids = torch.rand(tokens, experts, device=clock.device).topk(k).indices

        def call(algorithm: str, x: Any = x, ids: Any = ids, experts: int = experts) -> Any:
            most_tokens = x.shape[0]
            return fused.expert_dispatch(
                x, ids, experts, mode="throughput", max_tokens=most_tokens, algorithm=algorithm
            )

        yield Case("expert_dispatch", x.nbytes, ("simple", "copy_engine"), call, graph=False)


def _by(function: Callable[..., Any], *given: Any) -> Call:
    return lambda algorithm: function(*given, algorithm=algorithm)


def measured(clock: TorchClock, case: Case) -> dict[str, float]:
    """Microseconds of the algorithms that can do it; all PEs come to the same ones."""
    times = {}
    for algorithm in case.algorithms:
        try:
            us = clock.us(lambda algorithm=algorithm: case.call(algorithm), graph=case.graph)  # type: ignore[misc]
        except (ValueError, pyshmem.UnsupportedError):  # before anything is transferred
            continue
        times[algorithm] = clock.slowest(us)
    return times


def rows_of_times(
    sizes: Sequence[int], times: Sequence[dict[str, float]]
) -> list[list[int | str | None]]:
    """Rows of a table: up to which size which algorithm. Between two sizes: their geometric mean.

    An algorithm that is within 3 % of the best keeps its row, so that noise makes no rows.
    """
    rows: list[list[int | str | None]] = []
    for k, (size, by_algorithm) in enumerate(zip(sizes, times, strict=True)):
        best = min(by_algorithm, key=by_algorithm.__getitem__)
        if rows and by_algorithm.get(str(rows[-1][1]), math.inf) <= 1.03 * by_algorithm[best]:
            continue
        if rows:
            rows[-1][0] = int(math.sqrt(sizes[k - 1] * size))
        rows.append([None, best])
    return rows


@click.command()
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path))
def main(output: Path | None) -> None:
    """Measures, and PE 0 writes and prints."""
    with (
        pyshmem.init(device_heap_size="8G" if gpu_count() else "64M") as job,
        Progress(console=Console(stderr=True), disable=job.my_pe != 0) as bar,
    ):
        if job.n_pes == 1:
            raise click.ClickException("tuning takes 2 PEs: -n 2")
        clock, path = TorchClock(job), output or tune_file()
        if job.my_pe == 0 and not clock.on_gpu:
            bar.console.print("Figures of Triton's interpreter say nothing about a GPU.")
        found: dict[str, list[tuple[int, dict[str, float]]]] = {}
        for part in (norms, products, moves, dispatches):
            for case in bar.track(part(clock), description=part.__name__):
                times = measured(clock, case)
                found.setdefault(case.operation, []).append((case.nbytes, times))
        rows = {op: rows_of_times(*zip(*each, strict=True)) for op, each in found.items()}
        source = f"python -m pyshmem tune fused -n {job.n_pes}"
        made = table_of(
            {choice.row_name(op): as_rows(op, each) for op, each in rows.items()}, source
        )
        leader = job.my_pe == 0
    if leader:
        write(made, path)
        show(rows)
        print(f"written to {path}")


def show(rows: dict[str, list[list[int | str | None]]]) -> None:
    """The table, to the user."""
    grid = Table(title="algorithms of fused operations")
    for title in ("operation", "up to, bytes", "algorithm"):
        grid.add_column(title)
    for operation, each in rows.items():
        for most, algorithm in each:
            grid.add_row(operation, "any" if most is None else f"{most:,}", str(algorithm))
    Console().print(grid)


if __name__ == "__main__":
    main()
