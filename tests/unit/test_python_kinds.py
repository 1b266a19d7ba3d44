# SPDX-License-Identifier: BSD-3-Clause
"""The page of kinds of faults of the Python side: its functions and its tests are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import pyshmem

TESTS = Path(__file__).parents[1]
ROWS = [
    line for line in (TESTS / "kinds_python.md").read_text().splitlines() if line.startswith("| ")
][2:]


def _defined(folder: Path) -> set[str]:
    texts = (path.read_text() for path in folder.rglob("*.py"))
    return {name for text in texts for name in re.findall(r"^\s*(?:async )?def (\w+)", text, re.M)}


@pytest.fixture(scope="module")
def defined() -> tuple[set[str], set[str]]:
    return _defined(Path(pyshmem.__file__).parent), _defined(TESTS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[1].strip())
def test_each_kind_has_a_function_a_walk_and_cases(
    row: str, defined: tuple[set[str], set[str]]
) -> None:
    functions, tests = defined
    _, _, _, function, walk, cases, _ = row.split("|")
    named = re.findall(r"`(\w+)\(\)`", function), re.findall(r"`(test_\w+)`", walk + cases)
    assert named[0]
    assert "`test_" in walk
    assert "`test_" in cases
    assert not set(named[0]) - functions
    assert not set(named[1]) - tests
