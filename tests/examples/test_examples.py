# SPDX-License-Identifier: BSD-3-Clause
"""Every example runs, checks its own answer and says so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
#: Those of pyshmem's own launcher; test_mpi_example.py has the other, tests/pytorch PyTorch's.
NUMBERED = [
    path
    for path in sorted(EXAMPLES.glob("[0-9][0-9]_*.py"))
    if not {"mpi", "torch"} & set(path.stem.split("_"))
]


#: Examples and numbers of PEs: three, and one of the others in turn.
RUNS = [
    pytest.param(example, n, id=f"{example.stem}-{n}")
    for k, example in enumerate(NUMBERED)
    for n in (3, (1, 2, 4)[k % 3])
]


def run(example: Path, n: int, run_pes: Callable, **settings: str) -> None:
    done = run_pes(n, example, device="auto", env=settings, timeout=120, check=True)
    says = "needs two PEs" if n == 1 and "ping_pong" in example.name else "ok"
    if "gluon" in example.name and "needs a GPU" in done.stdout:
        says = "needs a GPU"  # it said so, and did nothing
    assert says in done.stdout.splitlines()[-1], done.stdout


@pytest.mark.parametrize(("example", "n"), RUNS)
def test_numbered_example(example: Path, n: int, run_pes: Callable) -> None:
    run(example, n, run_pes)


@pytest.mark.long
@pytest.mark.parametrize("setting", ["P2P=0", "NODE_SIZE=1"])
@pytest.mark.parametrize("example", NUMBERED, ids=lambda path: path.stem)
def test_numbered_example_with_far_pes(example: Path, setting: str, run_pes: Callable) -> None:
    key, value = setting.split("=")
    run(example, 3, run_pes, **{f"PYSHMEM_{key}": value})


@pytest.mark.parametrize("example", NUMBERED, ids=lambda path: path.stem)
def test_a_numbered_example_is_short_and_says_how_to_run_it(example: Path) -> None:
    text = example.read_text()
    assert len(text.splitlines()) <= 80
    assert f"python -m pyshmem run -n 4 examples/{example.name}" in text or "-n 2" in text


#: Few rows, rows that do not divide by the PEs, few columns and many.
PLATES = [(1, 24, 40), (2, 5, 129), (3, 5, 3), (4, 23, 40)]
MORE_PLATES = [(2, 33, 17), (3, 40, 24), (4, 6, 70)]


@pytest.mark.parametrize(
    ("n", "rows", "cols"),
    [*PLATES, *(pytest.param(*plate, marks=pytest.mark.long) for plate in MORE_PLATES)],
)
def test_heat(n: int, rows: int, cols: int, run_pes: Callable, tmp_path: Path) -> None:
    picture = tmp_path / "new" / "heat.png"
    sizes = ["--rows", rows, "--cols", cols, "--steps", 8]
    run_pes(n, EXAMPLES / "heat.py", [*sizes, "--out", picture], device="auto", check=True)
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("n", "arguments", "message"),
    [
        (1, ["--rows", 2, "--cols", 40], "at least 3 rows"),
        (1, ["--rows", 20, "--cols", -4], "not in the range"),
        (3, ["--rows", 4, "--cols", 40], "4 rows are too few for 3 PEs"),
        (1, ["--rows", "many"], "not a valid integer"),
    ],
)
def test_heat_refuses_sizes_that_cannot_be(
    n: int, arguments: list[object], message: str, run_pes: Callable, tmp_path: Path
) -> None:
    picture = tmp_path / "heat.png"
    command = [*arguments, "--out", picture]
    done = run_pes(n, EXAMPLES / "heat.py", command, device="auto")
    assert done.returncode != 0
    assert message in done.stderr
    assert not picture.exists()
