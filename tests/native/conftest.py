# SPDX-License-Identifier: BSD-3-Clause
"""The user's side of a C program: flags and compiler."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from compiling import WARNINGS, Compile


@pytest.fixture(scope="module")
def flags() -> list[str]:
    """What a user's Makefile would ask for."""
    command = [sys.executable, "-m", "pyshmem", "info", "--cflags", "--libs"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.split()


@pytest.fixture
def build(tmp_path: Path) -> Compile:
    """``build(arguments, name)``: compile with gcc, without a warning."""

    def compile_program(arguments: Sequence[str | Path], name: str) -> Path:
        program = tmp_path / name
        command = ["gcc", *WARNINGS, "-o", program, *arguments]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return program

    return compile_program
