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


LAUNCHED = """
import numpy as np
import pyshmem

def race():
    data = pyshmem.zeros(4, np.int64)
    pyshmem.put(data, np.ones(4, np.int64), 1 - pyshmem.my_pe())
    pyshmem.sync_all()
    return int(data[0])

def none():
    for turn in range(2):  # memory of the second job lies where that of the first did
        data = pyshmem.zeros(4, np.int64)
        pyshmem.put(data, np.full(4, turn), 1 - pyshmem.my_pe())
        pyshmem.barrier_all()
        found = int(data[0])
        pyshmem.finalize()
        pyshmem.init()
    return found

print(pyshmem.launch(none, 2, env={"PYSHMEM_CHECK": "order"}))
print(pyshmem.launch(race, 2))
try:
    pyshmem.launch(race, 2, env={"PYSHMEM_CHECK": "order"})
except pyshmem.LaunchError as error:
    print(error)
"""


def test_what_launch_finds_is_an_error(run_command: Callable, tmp_path: Path) -> None:
    program = tmp_path / "launched.py"
    program.write_text(LAUNCHED, encoding="utf-8")
    done = run_command([sys.executable, str(program)], 100, check=True, PYSHMEM_DEVICE="none")
    first, second, *told = done.stdout.splitlines()
    assert (first, second) == ("[1, 1]", "[1, 1]")
    assert told[0].startswith("a read and a write that nothing orders in the host heap of PE")
    assert "pyshmem.put(data, np.ones(4, np.int64), 1 - pyshmem.my_pe())" in done.stdout


@pytest.mark.parametrize(
    ("code", "options", "what"),
    [
        ("import pyshmem.triton", ["--device", "sim"], "kernels of Triton"),
        ("import pyshmem; pyshmem.init(device='cpu')", ["--device", "cpu"], "device cpu"),
    ],
)
def test_what_is_not_followed_raises(
    code: str, options: list[str], what: str, run_command: Callable
) -> None:
    command = [sys.executable, "-m", "pyshmem", "run", "-n", "1", *options, "--check=order"]
    done = run_command([*command, "-c", code], 60)
    assert done.returncode == 1
    assert "UnsupportedError: PYSHMEM_CHECK=order" in done.stderr
    assert what in done.stderr


def test_without_the_launcher_order_raises(run_command: Callable) -> None:
    program = "import pyshmem; pyshmem.init(device='none')"
    done = run_command([sys.executable, "-c", program], 60, PYSHMEM_CHECK="order")
    assert "order is of programs in Python that `python -m pyshmem run` has started" in done.stderr


def test_off_the_routines_are_the_original_ones(run_command: Callable) -> None:
    program = (
        "import sys, numpy, pyshmem; from pyshmem.host.fast_calls import Call; "
        "print(type(pyshmem.put) is Call, "
        "pyshmem.SymmetricArray.__getitem__ is numpy.ndarray.__getitem__, "
        "'pyshmem.check.record' in sys.modules, 'pyshmem.check.engine' in sys.modules)"
    )
    for checks in ("0", "args"):
        done = run_command([sys.executable, "-c", program], 60, check=True, PYSHMEM_CHECK=checks)
        assert done.stdout == "True True False False\n"
