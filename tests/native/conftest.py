# SPDX-License-Identifier: BSD-3-Clause
"""The user's side of a C program: flags and compiler."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from compiling import WARNINGS, Compile, gcc


@pytest.fixture(scope="session")
def flags() -> list[str]:
    """What a user's Makefile would ask for."""
    command = [sys.executable, "-m", "pyshmem", "info", "--cflags", "--libs"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.split()


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for headers that the build makes."""
    return tmp_path_factory.mktemp("made")


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Compile:
    """``build(arguments, name)``: compile with gcc, without a warning; the same only once."""
    root, numbers = tmp_path_factory.mktemp("programs"), itertools.count()
    built: dict[tuple[str, ...], Path] = {}

    def compile_program(arguments: Sequence[str | Path], name: str) -> Path:
        key = (name, *map(str, arguments))
        if key not in built:
            folder = root / str(next(numbers))
            folder.mkdir()
            gcc(*WARNINGS, "-o", folder / name, *arguments)
            built[key] = folder / name
        return built[key]

    return compile_program
