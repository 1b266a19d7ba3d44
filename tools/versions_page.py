#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The tables of docs/reference/versions.md, made from versions.json beside it.

``make resolve`` and ``make versions`` write their part of that file, then the page. Run as a program it
writes the page again from the file that is there.
"""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reference" / "versions.md"
DATA = PAGE.with_suffix(".json")
#: What a row of installed versions shows.
SHOWN = ("python", "numpy", "numba", "torch", "triton", "cuda-toolkit", "cupy-cuda13x")

Row = dict[str, Any]


def project() -> dict[str, Any]:
    """The table of that name in pyproject.toml."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)["project"]


def requirement(extra: str, package: str) -> str:
    """The versions of a package that an extra asks for, as ``>=1.2,<3``."""
    for text in project()["optional-dependencies"][extra]:
        found = re.fullmatch(r"([\w.-]+)(?:\[.*\])?(.*)", text)
        if found and found[1] == package:
            return found[2]
    raise KeyError(f"{extra} does not ask for {package}")


def oldest(extra: str, package: str) -> str:
    """The lower end of that range."""
    found = re.search(r">=([\d.]+)", requirement(extra, package))
    if not found:
        raise ValueError(f"{extra}: {package} has no lower end")
    return found[1]


def read() -> dict[str, list[Row]]:
    """What was written last, by part."""
    return json.loads(DATA.read_text(encoding="utf-8")) if DATA.exists() else {}


def write(part: str, rows: list[Row], order: list[str]) -> None:
    """Put rows in place of those of the same name, in ``order``, without others, and make the page."""
    data = read()
    kept = {row["name"]: row for row in data.get(part, [])} | {row["name"]: row for row in rows}
    data[part] = [kept[name] for name in order if name in kept]
    data[f"{part} not yet"] = [{"name": name} for name in order if name not in kept]
    DATA.write_text(json.dumps(data, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    PAGE.write_text(made(PAGE.read_text(encoding="utf-8"), data), encoding="utf-8")


def made(page: str, data: dict[str, list[Row]]) -> str:
    """The page with its tables made anew."""
    for part, table in (("resolved", _resolved), ("tried", _tried)):
        start, end = f"<!-- {part} -->\n", f"<!-- end of {part} -->\n"
        if not (0 <= page.find(start) < page.find(end)):
            raise ValueError(f"{PAGE} has no part between {start.strip()} and {end.strip()}")
        before, _, rest = page.partition(start)
        text = table(data.get(part, []))
        if left := "; ".join(row["name"] for row in data.get(f"{part} not yet", [])):
            text += f"\nNot yet: {left}.\n"
        page = before + start + text + end + rest.partition(end)[2]
    return page


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _resolved(rows: list[Row]) -> str:
    cells = []
    for row in rows:
        answers = row["extras"].items()
        versions: dict[str, str] = {}
        for _, answer in answers:
            versions = answer["versions"] | versions
        shown = ", ".join(f"{name} {versions[name]}" for name in SHOWN if name in versions)
        refused = [f"`{extra}`: {answer['why']}" for extra, answer in answers if not answer["fits"]]
        fitting = sum(answer["fits"] for _, answer in answers)
        which = "all" if not refused else "**none**" if not fitting else f"all but {len(refused)}"
        cells.append([row["name"], which, shown, "; ".join(refused)])
    return _table(["beside", "extras that install", "with", "which not, and why"], cells)


def _tried(rows: list[Row]) -> str:
    suites = list(dict.fromkeys(suite for row in rows for suite in row["suites"]))
    cells = []
    for row in rows:
        versions = row["versions"]
        shown = ", ".join(f"{name} {versions[name]}" for name in SHOWN if name in versions)
        counts = [_counts(row["suites"].get(suite)) for suite in suites]
        cells.append([row["name"], shown, *counts, f"{row['day']}, {row['commit']}"])
    return _table(["environment", "with", *suites, "when, commit"], cells)


def _counts(suite: Row | None) -> str:
    if suite is None:
        return ""
    words = [f"{suite[word]} {word}" for word in ("passed", "skipped") if suite.get(word)]
    if suite["failed"]:
        words.append(
            f"**{suite['failed']} failed**: " + ", ".join(f"`{name}`" for name in suite["failures"])
        )
    if suite.get("ended") is False:
        words.append("**did not end**")
    return ", ".join(words) or "**no test ran**"


if __name__ == "__main__":
    PAGE.write_text(made(PAGE.read_text(encoding="utf-8"), read()), encoding="utf-8")
