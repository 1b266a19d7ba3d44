# SPDX-License-Identifier: BSD-3-Clause
"""``docs/semantics.md`` names tests: each is there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "semantics.md"


def _written() -> set[str]:
    return {
        node.name
        for path in TESTS.rglob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


def test_every_rule_names_tests_that_exist() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("|")]
    rules = [row for row in rows if not re.match(r"\| (Rule|---)", row)]
    assert len(rules) > 50
    assert not [row for row in rules if not re.search(r"`test_\w+`", row)]
    assert set(re.findall(r"`(test_\w+)`", PAGE.read_text())) - _written() == set()
