# SPDX-License-Identifier: BSD-3-Clause
"""Figures side by side: time of each peer, and its time divided by pyshmem's (above 1: pyshmem wins).

Run: python bench/compare.py result.jsonl...
"""

import json
import sys
from collections import defaultdict
from pathlib import Path

from rich.console import Console
from rich.table import Table


def rows(paths: list[str]) -> dict[tuple, dict[str, float]]:
    """(op, bytes, pes, blocks, threads) -> peer -> least microseconds."""
    figures: dict[tuple, dict[str, float]] = defaultdict(dict)
    for path in paths:
        for line in Path(path).read_text().splitlines():
            if not line.startswith("{"):
                continue
            row = json.loads(line)
            key = tuple(row[name] for name in ("op", "bytes", "pes", "blocks", "threads"))
            best = figures[key].get(row["peer"], float("inf"))
            figures[key][row["peer"]] = min(best, row["us"])
    return figures


def main(paths: list[str]) -> None:
    figures = rows(paths)
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
    Console(width=120).print(table)


if __name__ == "__main__":
    main(sys.argv[1:])
