# SPDX-License-Identifier: BSD-3-Clause
"""The pages on algorithms have those that fused operations take, and each under a known name."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "algorithms"
ROW = re.compile(r"^\| `(\w+)` \| (.+) \| (.+) \|$", re.MULTILINE)
#: Where the choices of each page are written down.
SOURCES = {
    "all_reduce_rmsnorm": "all_reduce_norm/api.py",
    "matmul": "matmul/dispatch.py",
    "exchange": "exchange/launch.py",
    "experts": "moe/copy_engine.py",
    "grouped_matmul": "grouped_matmul/sharded_experts.py",
}


def taken(source: str) -> set[str]:
    text = (ROOT / "pyshmem" / "fused" / source).read_text(encoding="utf-8")
    return set(
        re.findall(r'"(\w+)": (?:None|why\w*|norm_launch\.why|layout_of|gather_|scatter_)', text)
    )


def test_every_algorithm_has_its_row() -> None:
    for name, source in SOURCES.items():
        rows = ROW.findall((PAGES / f"{name}.md").read_text(encoding="utf-8"))
        assert {row[0] for row in rows} == taken(source), name
        assert all(known.strip() for *_, known in rows)


def test_every_page_is_listed() -> None:
    listed = (PAGES / "README.md").read_text(encoding="utf-8")
    pages = {path.stem for path in PAGES.glob("*.md")} - {"README"}
    assert pages >= SOURCES.keys()
    assert all(re.search(rf"^{page}$", listed, re.MULTILINE) for page in pages)
