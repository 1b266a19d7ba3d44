# SPDX-License-Identifier: BSD-3-Clause
"""The table of all results: how rows of different programs become rows of it."""

from __future__ import annotations

import csv
import json
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

BENCH = Path(__file__).parents[2] / "bench"
spec = spec_from_file_location("results_table", BENCH / "table.py")
assert spec
assert spec.loader
table = module_from_spec(spec)
spec.loader.exec_module(table)


def test_what_most_rows_have_stands_in_columns() -> None:
    values = {"peer": "cuda", "op": "put", "bytes": 8, "pes": 2, "blocks": 1, "us": 1.5}
    row = ["folder", "file", "put", "cuda", 8, 2, "us=1.5", "blocks=1"]
    assert table.row_of("folder", "file", values) == row
    row = ["folder", "file", "reduce", "", "", "", "us_graph=2 least=1", 'run=3 what="gemm"']
    values = {"run": 3, "what": "gemm", "op": "reduce", "us_graph": 2, "least": 1}
    assert table.row_of("folder", "file", values) == row


def test_the_table_has_every_row_of_the_raw_files_it_knows() -> None:
    with (BENCH / "results" / "all.csv").open(newline="") as file:
        rows = [tuple(row) for row in csv.reader(file)]
    assert rows[0] == table.COLUMNS
    known = {row[0] for row in rows[1:]}
    there = set(rows)
    checked = 0
    for path in (BENCH / "results").rglob("*.jsonl"):
        if str(path.parent.relative_to(BENCH / "results")) in known:
            for row in table.rows_of(path):
                assert tuple(map(str, row)) in there, (path, json.dumps(row))
                checked += 1
    assert checked > 1000
