# SPDX-License-Identifier: BSD-3-Clause
"""A serial test that ``make test`` would leave out is an error."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]

BY_ANOTHER_NAME = """
    from pytest import mark as marks
    pytestmark = [marks.serial]
"""
BY_A_PARAMETER = """
    import pytest
    alone = getattr(pytest.mark, "serial")
    parametrize = pytest.mark.parametrize("n", [1, pytest.param(2, marks=alone)])
"""
PLAIN = """
    import pytest
    pytestmark = pytest.mark.serial
"""


def collected(folder: Path, head: str, *options: str) -> subprocess.CompletedProcess[str]:
    lines = [line.strip() for line in head.splitlines()]
    mark = "@parametrize" if "parametrize =" in head else ""
    argument = "n" if mark else ""
    test = [mark, f"def test_it({argument}):", "    pass", ""]
    (folder / "test_file.py").write_text("\n".join([*lines, *test]))
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = serial: alone\n")
    command = [sys.executable, "-m", "pytest", "-p", "conftest", *options, "test_file.py"]
    environment = dict(os.environ, PYTHONPATH=str(TESTS))
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60
    )


@pytest.mark.parametrize("head", [BY_ANOTHER_NAME, BY_A_PARAMETER])
def test_a_mark_in_other_words_is_an_error(tmp_path: Path, head: str) -> None:
    run = collected(tmp_path, head, "-m", "not serial")
    assert run.returncode == pytest.ExitCode.INTERRUPTED
    assert "ERROR collecting test_file.py" in run.stdout
    assert "is marked serial, but make test does not find its file" in run.stdout


def test_side_by_side_it_is_an_error_too(tmp_path: Path) -> None:
    run = collected(tmp_path, BY_ANOTHER_NAME, "-n", "2", "-m", "not serial")
    assert run.returncode not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
    assert "make test does not find its file" in run.stdout


def test_a_mark_that_is_found_is_none(tmp_path: Path) -> None:
    assert collected(tmp_path, PLAIN).returncode == 0


def test_the_makefile_looks_for_the_same_word() -> None:
    (word,) = re.findall(r"grep -l (\S+) ", (TESTS.parent / "Makefile").read_text())
    assert f'SERIAL = "{word}"' in (TESTS / "conftest.py").read_text()
