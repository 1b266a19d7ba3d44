# SPDX-License-Identifier: BSD-3-Clause
"""Folders with many files start with a short README, whose names are right; no file is long."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TREES = ("pyshmem", "native", "host_proxy", "tests", "bench", "tools", "examples", "docs")
#: Data and pictures do not count: nobody reads them in an order.
READ = {".py", ".pyi", ".c", ".h", ".cpp", ".cu", ".sh", ".md"}
MOST_FILES, MOST_LINES = 5, 30
MOST_SOURCE_LINES = 400
#: Made when the package is built.
MADE = {"shmem_types.h"}


def source_files() -> list[Path]:
    found = [path for tree in TREES for path in (ROOT / tree).rglob("*") if path.suffix in READ]
    return [path for path in found if "results" not in path.parts and path.is_file()]


FILES_IN = Counter(path.parent for path in source_files() if path.name != "README.md")
READMES = sorted(path for path in source_files() if path.name == "README.md")


@pytest.mark.parametrize(
    "folder",
    sorted(folder for folder, files in FILES_IN.items() if files > MOST_FILES),
    ids=lambda folder: str(folder.relative_to(ROOT)),
)
def test_large_folders_have_a_readme(folder: Path) -> None:
    assert (folder / "README.md").is_file()


@pytest.mark.parametrize("readme", READMES, ids=lambda path: str(path.parent.relative_to(ROOT)))
def test_readmes_are_short_and_name_what_is_there(readme: Path) -> None:
    text = readme.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= MOST_LINES
    for name in re.findall(r"`([\w./-]+\.(?:py|c|h|cpp|cu|md|sh)|[\w./-]+/)`", text):
        bases = (readme.parent, readme.parent.parent, ROOT, ROOT / "native" / "src")
        near = any((base / name).exists() for base in bases)
        below = any(str(path).endswith(f"/{name}") for path in readme.parent.rglob("*.*"))
        assert near or below or name in MADE, f"{name} is not there"


def test_no_source_file_has_more_than_400_lines() -> None:
    sources = [path for path in source_files() if path.suffix != ".md"]
    assert len(sources) > 300
    lengths = {path: path.read_text().count("\n") for path in sources}
    assert not {str(path): n for path, n in lengths.items() if n > MOST_SOURCE_LINES}
