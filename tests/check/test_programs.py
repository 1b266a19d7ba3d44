# SPDX-License-Identifier: BSD-3-Clause
"""Examples, and programs of the docs, under ``PYSHMEM_CHECK=order``: nothing is told."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from pages import check_page, device_of, pages_with_programs, programs_of
from test_order import WITHOUT

EXAMPLES = Path(__file__).parents[2] / "examples"
#: What an example wants to be told, with the name of a file behind it.
ARGUMENTS = {"heat": ["--rows", 23, "--cols", 40, "--steps", 8, "--out"]}
NOT_OURS = ("08_mpi",)  # its PEs are started by MPI


def _wants_torch(name: str) -> bool:
    return "torch" in name.split("_")


@pytest.mark.long
@pytest.mark.parametrize(
    "example",
    [
        pytest.param(path, id=path.stem, marks=[WITHOUT] if _wants_torch(path.stem) else [])
        for path in sorted(EXAMPLES.glob("*.py"))
        if path.stem not in NOT_OURS
    ],
)
def test_an_example_is_not_told(example: Path, run_pes: Callable, tmp_path: Path) -> None:
    arguments = ARGUMENTS.get(example.stem, [])
    arguments = [*arguments, tmp_path / "picture.png"] if arguments else []
    done = run_pes(
        2, example, arguments, device="sim", timeout=400, options=["--check=order"],
        env={"PYSHMEM_CHECK_JSON": str(tmp_path / "found.json")},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert not json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))["reports"]


@pytest.mark.long
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=f"{page.parent.name}-{page.stem}", marks=[WITHOUT] if torch else [])
        for torch in (False, True)
        for page in pages_with_programs(torch=torch)
    ],
)
def test_programs_of_a_page_are_not_told(page: Path, run_pes: Callable, tmp_path: Path) -> None:
    if device_of(programs_of(page)[1]) == "cuda":
        pytest.skip("a page for GPUs")
    env = {"PYSHMEM_CHECK": "order", "PYSHMEM_CHECK_JSON": str(tmp_path / "found.json")}

    def run(*given: object, device: str, timeout: float, check: bool) -> object:
        where = "sim" if device == "auto" else device
        return run_pes(*given, device=where, timeout=4 * timeout, check=check, env=env)

    check_page(page, run, tmp_path)
    assert not json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))["reports"]
