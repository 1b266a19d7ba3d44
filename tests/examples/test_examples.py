# SPDX-License-Identifier: BSD-3-Clause
"""Every example runs, checks its own answer and says so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
NUMBERED = sorted(EXAMPLES.glob("[0-9][0-9]_*.py"))


@pytest.mark.parametrize("n", [1, 2, 4])
@pytest.mark.parametrize("example", NUMBERED, ids=lambda path: path.stem)
def test_numbered_example(example: Path, n: int, run_pes: Callable) -> None:
    done = run_pes(n, example, device="auto", timeout=120, check=True)
    says = "needs two PEs" if n == 1 and "ping_pong" in example.name else "ok"
    assert says in done.stdout.splitlines()[-1], done.stdout


@pytest.mark.parametrize("example", NUMBERED, ids=lambda path: path.stem)
def test_a_numbered_example_is_short_and_says_how_to_run_it(example: Path) -> None:
    text = example.read_text()
    assert len(text.splitlines()) <= 80
    assert f"python -m pyshmem run -n 4 examples/{example.name}" in text or "-n 2" in text


@pytest.mark.parametrize(
    ("n", "rows", "cols"), [(1, 24, 40), (2, 33, 17), (3, 40, 24), (4, 32, 32)]
)
def test_heat(n: int, rows: int, cols: int, run_pes: Callable, tmp_path: Path) -> None:
    picture = tmp_path / "new" / "heat.png"
    sizes = ["--rows", rows, "--cols", cols, "--steps", 20]
    run_pes(n, EXAMPLES / "heat.py", [*sizes, "--out", picture], device="auto", check=True)
    assert picture.read_bytes().startswith(b"\x89PNG")
