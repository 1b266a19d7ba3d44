# SPDX-License-Identifier: BSD-3-Clause
"""No two places of the package say the same in twelve lines or more of code.

What is said twice is changed once. Lines count as they stand, but for docstrings, comments, imports and
lines of brackets alone. What may stand twice has its reason here; nothing may be added but with one.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pyshmem

PACKAGE = Path(pyshmem.__file__).parent
MOST = 11

#: Two files, or one twice, and why.
MAY_REPEAT: dict[tuple[str, str], str] = {}


class Line(NamedTuple):
    """A line of code: what it says, and where it stands."""

    text: str
    number: int


def _not_code(tree: ast.AST) -> set[int]:
    """Numbers of the lines of docstrings, other texts that are statements, and imports."""
    lines: set[int] = set()
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if is_text or isinstance(node, ast.Import | ast.ImportFrom):
            lines.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return lines


def code_lines(text: str) -> list[Line]:
    passed = _not_code(ast.parse(text))
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        said = " ".join(line.split("  # ")[0].split())
        if number not in passed and not said.startswith("#") and any(c.isalnum() for c in said):
            found.append(Line(said, number))
    return found


def repeats(files: dict[str, list[Line]], most: int) -> Iterable[tuple[str, int, str, int]]:
    """Where more than ``most`` lines stand twice, each pair of files once: (file, line, file, line)."""
    places = defaultdict(list)
    for name, lines in files.items():
        for first in range(len(lines) - most):
            window = tuple(line.text for line in lines[first : first + most + 1])
            places[window].append((name, first, lines[first].number))
    told = set()
    for same in places.values():
        for k, (name, first, number) in enumerate(same):
            for other, begin, place in same[k + 1 :]:
                overlap = name == other and abs(first - begin) <= most
                if not overlap and (name, other) not in told:
                    told.add((name, other))
                    yield name, number, other, place


def test_the_walk_sees_repeats() -> None:
    body = "\n".join(f"    a{n} = {n}" for n in range(MOST + 1))
    twice = f'def f():\n    """One."""\n{body}\n\ndef g():\n    # Two.\n{body}\n'
    assert list(repeats({"x": code_lines(twice)}, MOST)) == [("x", 3, "x", 18)]
    assert not list(repeats({"x": code_lines(twice.replace("a5", "b", 1))}, MOST))
    row = "\n".join(["a = 1"] * (MOST + 2))
    assert not list(repeats({"x": code_lines(row)}, MOST)), "a run is not its own repeat"


def test_nothing_is_said_twice() -> None:
    files = {
        str(path.relative_to(PACKAGE)): code_lines(path.read_text(encoding="utf-8"))
        for path in sorted(PACKAGE.rglob("*.py"))
    }
    found = {(one, other): (f"{one}:{line}", f"{other}:{place}")
             for one, line, other, place in repeats(files, MOST)}  # fmt: skip
    assert not [found[pair] for pair in found.keys() - MAY_REPEAT.keys()]
    assert found.keys() >= MAY_REPEAT.keys(), "one that has gone is struck"
