# SPDX-License-Identifier: BSD-3-Clause
"""``PYSHMEM_CHECK=order`` on wrong programs, each wrong in one way, and on right ones that look wrong.

In a wrong program ``# <1>`` and ``# <2>`` mark the two lines that are to be told, in any order.
"""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
HAS_TORCH = importlib.util.find_spec("torch") is not None
WRONG = sorted(HERE.glob("wrong/*.py"))
RIGHT = sorted(HERE.glob("right/*.py"))


def needs(program: Path) -> tuple[str, str]:
    """PEs and device of a program."""
    text = program.read_text(encoding="utf-8")
    (n_pes,) = re.findall(r"PEs: (\d)\.", text)
    (device,) = re.findall(r'init\(device="(\w+)"\)', text)
    return n_pes, device


def run(programs: list[Path], run_command: Callable, found: Path) -> tuple[int, list, str]:
    """The exit status, the reports and what was printed, of programs of the same needs."""
    ((n_pes, device),) = {needs(program) for program in programs}
    command = [sys.executable, "-m", "pyshmem", "run", "-n", n_pes, "--device", device]
    command += ["--timeout", "160", "--check=order"]
    command += [] if len(programs) == 1 else [str(HERE / "several.py")]
    done = run_command([*command, *map(str, programs)], 200, PYSHMEM_CHECK_JSON=str(found))
    reports = json.loads(found.read_text(encoding="utf-8"))["reports"] if found.exists() else []
    return done.returncode, reports, done.stderr


def groups(programs: list[Path]) -> list[Any]:
    """Programs that one job can run: PEs take longer to start than to run one."""
    of: dict[tuple[str, ...], list[Path]] = {}
    for program in programs:
        key = *needs(program), *(["torch"] if wants_torch(program) else [])
        of.setdefault(key, []).append(program)
    return [
        pytest.param(group, id="-".join(key), marks=WITHOUT if key[2:] else ())
        for key, group in sorted(of.items())
    ]


def wants_torch(program: Path) -> bool:
    """Does the program use torch, which tests of the library alone do not install?"""
    return program.name.startswith("torch_")


WITHOUT = pytest.mark.skipif(not HAS_TORCH, reason="make test-torch installs torch")


def alone(programs: list[Path]) -> list[Any]:
    """Each by itself, in the long tests."""
    return [
        pytest.param(
            [program],
            id=program.stem,
            marks=[pytest.mark.long, *([WITHOUT] if wants_torch(program) else [])],
        )
        for program in programs
    ]


def lines_of(report: dict) -> tuple[int, ...]:
    return tuple(sorted(report[side]["site"]["line"] for side in ("first", "second")))


def marked(program: Path) -> tuple[int, ...]:
    """The lines that are to be told."""
    lines = program.read_text(encoding="utf-8").splitlines()
    return tuple(sorted(n for k in "12" for n, line in enumerate(lines, 1) if f"<{k}>" in line))


@pytest.mark.parametrize("programs", [*groups(WRONG), *alone(WRONG)])
def test_a_wrong_program_is_told(
    programs: list[Path], run_command: Callable, tmp_path: Path
) -> None:
    status, reports, text = run(programs, run_command, tmp_path / "found.json")
    assert status == 3, text
    told = {program: set() for program in map(str, programs)}
    for report in reports:
        told[report["first"]["site"]["file"]].add(lines_of(report))
    missed = [p.name for p in programs if marked(p) not in told[str(p)]]
    assert not missed, text


@pytest.mark.parametrize("programs", [*groups(RIGHT), *alone(RIGHT)])
def test_a_right_program_is_not(
    programs: list[Path], run_command: Callable, tmp_path: Path
) -> None:
    status, reports, text = run(programs, run_command, tmp_path / "found.json")
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


ADVISED = """
import numpy as np, pyshmem
with pyshmem.init(device="none") as job:
    data = pyshmem.zeros(4, np.int64)
    flag = pyshmem.zeros(1, np.int64)
    pyshmem.put(data, np.arange(4), 1 - job.my_pe)
    pyshmem.fence()
    pyshmem.p(flag, 1, 1 - job.my_pe)
    pyshmem.wait_until(flag, pyshmem.CMP_EQ, 1)
    print(data.sum())
"""


@pytest.mark.parametrize(("checks", "status"), [("order", 0), ("strict", 3)])
def test_what_is_allowed_is_told_with_strict_alone(
    checks: str, status: int, run_command: Callable, tmp_path: Path
) -> None:
    program = tmp_path / "advised.py"
    program.write_text(ADVISED, encoding="utf-8")
    command = [sys.executable, "-m", "pyshmem", "run", "-n", "2", "--device", "none"]
    done = run_command([*command, f"--check={checks}", str(program)], 60)
    assert done.returncode == status, done.stderr
    advice = "advice: a wait for a word that a plain store changes in the host heap of PE"
    assert (advice in done.stderr) == (checks == "strict")
    assert ("p writes flag[0] at" in done.stderr) == (checks == "strict")


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
        pytest.param(
            "import pyshmem, pyshmem.interop.torch as s; pyshmem.init(); s.use_symmetric_memory(9)",
            ["--device", "sim"],
            "torch's own symmetric memory",
            marks=WITHOUT,
        ),
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
