# SPDX-License-Identifier: BSD-3-Clause
"""``PYSHMEM_CHECK=order`` on wrong programs, each wrong in one way, and on right ones that look wrong.

In a wrong program ``# <1>`` and ``# <2>`` mark the two lines that are to be told, in any order.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).parent
WRONG = sorted(HERE.glob("wrong/*.py"))
RIGHT = sorted(HERE.glob("right/*.py"))


def run(program: Path, run_command: Callable, found: Path, *options: str) -> tuple[int, list, str]:
    """The exit status, the reports and what was printed."""
    text = program.read_text(encoding="utf-8")
    (n_pes,) = re.findall(r"PEs: (\d)\.", text)
    (device,) = re.findall(r'init\(device="(\w+)"\)', text)
    command = [sys.executable, "-m", "pyshmem", "run", "-n", n_pes, "--device", device]
    command += ["--timeout", "60", "--check=order", *options, str(program)]
    done = run_command(command, 100, PYSHMEM_CHECK_JSON=str(found))
    reports = json.loads(found.read_text(encoding="utf-8"))["reports"] if found.exists() else []
    return done.returncode, reports, done.stderr


def lines_of(report: dict) -> tuple[int, ...]:
    return tuple(sorted(report[side]["site"]["line"] for side in ("first", "second")))


@pytest.mark.parametrize("program", WRONG, ids=lambda path: path.stem)
def test_a_wrong_program_is_told(program: Path, run_command: Callable, tmp_path: Path) -> None:
    lines = program.read_text(encoding="utf-8").splitlines()
    marked = [n for mark in "12" for n, line in enumerate(lines, 1) if f"<{mark}>" in line]
    status, reports, text = run(program, run_command, tmp_path / "found.json")
    assert tuple(sorted(marked)) in [lines_of(report) for report in reports], text
    assert status == 3
    assert all(report["first"]["site"]["file"] == str(program) for report in reports)


@pytest.mark.parametrize("program", RIGHT, ids=lambda path: path.stem)
def test_a_right_program_is_not(program: Path, run_command: Callable, tmp_path: Path) -> None:
    status, reports, text = run(program, run_command, tmp_path / "found.json")
    assert not reports, text
    assert status == 0, text
