# SPDX-License-Identifier: BSD-3-Clause
"""Figures side by side: time of each peer, and its time divided by pyshmem's (above 1: pyshmem wins).

Run: python bench/compare.py [--targets] [--before OLD.jsonl] result.jsonl...
With --targets it prints only what ``targets.py`` makes of them; the exit code says whether all passed.
With --before it prints pyshmem's own figures beside those of another version, measured in turn on one
machine (``run_on_gpu.sh ... against``); the exit code says whether none is much slower. With --median
figures are medians of the rows that a figure has, else the least.
"""

import json
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from statistics import median

import click
from rich.console import Console
from rich.table import Table

from targets import Figures, judge


#: What counts as slower than the other version: more than clocks and code placement make of it.
MUCH = 1.03


def rows(paths: tuple[str, ...], pick: Callable[[list[float]], float] = min) -> Figures:
    """(op, bytes, pes, blocks, threads) -> peer -> microseconds, ``pick`` of those measured."""
    found: dict[tuple, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for path in paths:
        for line in Path(path).read_text().splitlines():
            if not line.startswith("{"):
                continue
            row = json.loads(line)
            key = tuple(row[name] for name in ("op", "bytes", "pes", "blocks", "threads"))
            found[key][row["peer"]].append(row["us"])
    return {key: {peer: pick(us) for peer, us in row.items()} for key, row in found.items()}


def print_targets(figures: Figures) -> bool:
    """True when every target that could be judged is reached."""
    table = Table(title="targets")
    for name in ("target", "figure", "at most", "", "worst"):
        table.add_column(name, justify="right" if name in ("figure", "at most") else "left")
    verdicts = judge(figures)
    for verdict in verdicts:
        value = "" if verdict.value is None else f"{verdict.value:.3f}"
        state = "no figure" if verdict.value is None else "PASS" if verdict.passed else "FAIL"
        table.add_row(verdict.target, value, f"{verdict.limit:g}", state, verdict.where)
    Console(width=140).print(table)
    return all(verdict.passed for verdict in verdicts if verdict.value is not None)


def print_figures(figures: Figures) -> None:
    """One row for each figure that pyshmem has."""
    peers = sorted({peer for row in figures.values() for peer in row} - {"pyshmem"})
    table = Table(title="microseconds; in brackets the peer's time over pyshmem's")
    for name in ("op", "bytes", "PEs", "grid", "pyshmem", *peers):
        table.add_column(name, justify="left" if name == "op" else "right")
    for (op, nbytes, pes, blocks, threads), row in sorted(figures.items()):
        ours = row.get("pyshmem")
        if ours is None:
            continue
        cells = [
            f"{row[peer]:.2f} [{row[peer] / ours:.2f}]" if peer in row else "" for peer in peers
        ]
        table.add_row(op, str(nbytes), str(pes), f"{blocks}x{threads}", f"{ours:.2f}", *cells)
    Console(width=160).print(table)


def print_before(before: Figures, now: Figures) -> bool:
    """True when no figure of pyshmem's, by any way, is much slower than before."""
    table = Table(title="microseconds of both versions, and now's time over before's")
    for name in ("op", "way", "bytes", "PEs", "grid", "before", "now", "ratio", ""):
        table.add_column(name, justify="left" if name in ("op", "way") else "right")
    found = [
        (us / before[key][peer], key, peer)
        for key, row in now.items()
        for peer, us in row.items()
        if peer.startswith("pyshmem") and peer in before.get(key, {})
    ]
    for ratio, key, peer in sorted(found):
        op, nbytes, pes, blocks, threads = key
        shape = (str(nbytes), str(pes), f"{blocks}x{threads}")
        times = (f"{before[key][peer]:.3f}", f"{now[key][peer]:.3f}", f"{ratio:.3f}")
        way = peer.removeprefix("pyshmem").strip()
        table.add_row(op, way, *shape, *times, "slower" if ratio > MUCH else "")
    Console(width=120).print(table)
    slower = sum(1 for ratio, _, _ in found if ratio > MUCH)
    print(f"{slower} of {len(found)} figures are more than {MUCH - 1:.0%} slower than before")
    return bool(found) and slower == 0


@click.command()
@click.argument("results", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False))
@click.option("--targets", is_flag=True, help="What targets.py makes of the results, and no more.")
@click.option("--before", type=click.Path(exists=True, dir_okay=False), help="Another version's.")
@click.option("--median", "in_median", is_flag=True, help="Medians of each figure, not the least.")
def main(results: tuple[str, ...], targets: bool, before: str | None, in_median: bool) -> None:
    """Figures side by side."""
    now = rows(results, median if in_median else min)
    if before is not None:
        old = rows((before,), median if in_median else min)
        sys.exit(0 if print_before(old, now) else 1)
    if targets:
        sys.exit(0 if print_targets(now) else 1)
    print_figures(now)


if __name__ == "__main__":
    main()
