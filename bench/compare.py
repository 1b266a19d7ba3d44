# SPDX-License-Identifier: BSD-3-Clause
"""Figures side by side: time of each peer, and its time divided by pyshmem's (above 1: pyshmem wins).

Run: python bench/compare.py [--targets] result.jsonl...
With --targets it prints only what ``targets.py`` makes of them; the exit code says whether all passed.
"""

import json
import sys
from collections import defaultdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from targets import Figures, judge


def rows(paths: list[str]) -> Figures:
    """(op, bytes, pes, blocks, threads) -> peer -> least microseconds."""
    figures: Figures = defaultdict(dict)
    for path in paths:
        for line in Path(path).read_text().splitlines():
            if not line.startswith("{"):
                continue
            row = json.loads(line)
            key = tuple(row[name] for name in ("op", "bytes", "pes", "blocks", "threads"))
            best = figures[key].get(row["peer"], float("inf"))
            figures[key][row["peer"]] = min(best, row["us"])
    return figures


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


if __name__ == "__main__":
    paths = [argument for argument in sys.argv[1:] if argument != "--targets"]
    if "--targets" in sys.argv:
        sys.exit(0 if print_targets(rows(paths)) else 1)
    print_figures(rows(paths))
