#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What installs beside what: asks pip's resolver, installs nothing, writes docs/reference/versions.md.

Usage: ``make resolve``, or ``tools/resolve.py [WORD]``: only the rows whose name has the word, printed.
Needs the network; a row takes half a minute, and none may take ten.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reference" / "versions.md"
START, END = "<!-- resolved -->\n", "<!-- end -->\n"
#: What is asked for together with each row.
EXTRAS = ("cuda", "triton", "torch")


class Row(NamedTuple):
    """``wants``: its requirements that pyshmem has an opinion on, as it states them."""

    name: str
    wants: tuple[str, ...]


ROWS = (
    *(Row(f"torch {v}", (f"torch=={v}",)) for v in ("2.11.0", "2.12.1", "2.13.0", "2.14.1", "2.15.0")),
    Row("vLLM 0.33.0 (its pins of torch and numba)", ("torch==2.14.0", "numba==0.65.0")),
    Row("SGLang 0.5.23 (its pins of torch and numba)", ("torch==2.14.1", "numba==0.65.1")),
    Row("nvshmem4py-cu13 0.4.1", ("nvshmem4py-cu13==0.4.1",)),
    Row("numba 0.62.1, the oldest", ("numba==0.62.1",)),
)  # fmt: skip
SHOWN = ("torch", "triton", "numba", "cuda-toolkit", "cupy-cuda13x")


def requirements() -> list[str]:
    """Those of the package and of the extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    return [*project["dependencies"], *(one for name in EXTRAS for one in extras[name])]


def resolve(wants: tuple[str, ...]) -> tuple[bool, str]:
    """Whether pip finds versions for all, and which, or its reason."""
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        options = ["--dry-run", "--ignore-installed", "--quiet", "--report", report.name]
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", *options]
        done = subprocess.run(
            [*command, *requirements(), *wants],
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        if done.returncode:
            lines = done.stderr.splitlines()
            reasons = [
                line.strip() for line in lines if "depends on" in line or "requested" in line
            ]
            return False, "; ".join(reasons[-3:]) or " ".join(lines[-2:])
        found = json.load(report)["install"]
    versions = {each["metadata"]["name"].lower(): each["metadata"]["version"] for each in found}
    return True, ", ".join(f"{name} {versions[name]}" for name in SHOWN if name in versions)


def table(rows: list[tuple[Row, bool, str]]) -> str:
    """The rows as Markdown."""
    lines = ["| beside | installs | which, or why not |", "| --- | --- | --- |"]
    for row, fits, text in rows:
        lines.append(f"| {row.name} | {'yes' if fits else '**no**'} | {text} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Ask for each row; with no word, write the page."""
    word = sys.argv[1] if len(sys.argv) > 1 else ""
    rows = []
    for row in ROWS:
        if word in row.name:
            rows.append((row, *resolve(row.wants)))
            print(*rows[-1][1:], row.name, sep=" | ", flush=True)
    if not word:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(START)
        after = rest.partition(END)[2]
        PAGE.write_text(before + START + table(rows) + END + after, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
