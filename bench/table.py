# SPDX-License-Identifier: BSD-3-Clause
"""Adds the rows of raw results to the one table of all, bench/results/all.csv: python bench/table.py

A folder that has rows in the table is left as it is, so raw files of old runs need not stay. What is
measured differs, so a row has columns for what most have, and the rest as ``key=value``: figures are
those whose keys name a unit.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
TABLE = RESULTS / "all.csv"
COLUMNS = ("folder", "file", "op", "who", "bytes", "pes", "figures", "rest")
#: Which keys of a raw row stand in a column; the first that is there counts.
OPS, WHO = ("op", "call", "what"), ("peer", "provider", "backend")
FIGURE = re.compile(r"(^|_)(us|ms|ns|least|of)($|_)")


def shown(values: dict[str, Any]) -> str:
    return " ".join(f"{key}={json.dumps(value)}" for key, value in values.items())


def row_of(folder: str, file: str, values: dict[str, Any]) -> list[Any]:
    left = dict(values)

    def taken(*keys: str) -> Any:
        return next((left.pop(key) for key in keys if key in left), "")

    known = [taken(*OPS), taken(*WHO), taken("bytes"), taken("pes")]
    figures = {key: value for key, value in left.items() if FIGURE.search(key)}
    rest = {key: value for key, value in left.items() if key not in figures}
    return [folder, file, *known, shown(figures), shown(rest)]


def rows_of(path: Path) -> Iterator[list[Any]]:
    folder = str(path.parent.relative_to(RESULTS))
    for line in path.read_text(encoding="utf-8").splitlines():
        values = json.loads(line)
        if isinstance(values, list):  # a name, and figures by what was called
            name, values = values[0], {f"{key} ns": value for key, value in values[1].items()}
            yield [folder, path.name, "", name, "", "", shown(values), ""]
        else:
            yield row_of(folder, path.name, values)


def known_folders() -> set[str]:
    if not TABLE.exists():
        return set()
    with TABLE.open(newline="", encoding="utf-8") as file:
        return {row["folder"] for row in csv.DictReader(file)}


def main() -> None:
    known = known_folders()
    raw = sorted(RESULTS.rglob("*.jsonl"))
    new = [path for path in raw if str(path.parent.relative_to(RESULTS)) not in known]
    with TABLE.open("a", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        if not known:
            writer.writerow(COLUMNS)
        for path in new:
            writer.writerows(rows_of(path))
    print(f"{len(new)} files added to {TABLE.name}")


if __name__ == "__main__":
    main()
