# SPDX-License-Identifier: BSD-3-Clause
"""What the tests of whole jobs share."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from namespaces import hosts as hosts  # a fixture
from watched import Job


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Job]]:
    """``start(program, n, *options)``: a job that is ended with the test."""
    jobs: list[Job] = []

    def begin(program: str, n: int, *options: str) -> Job:
        folder = tmp_path / str(len(jobs))
        folder.mkdir()
        jobs.append(Job(folder, program, n, *options))
        return jobs[-1]

    yield begin
    for job in jobs:
        job.close()


@pytest.fixture(scope="session")
def kept(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> dict[str, str]:
    """Machine code of kernels on CPUs, kept by all tests of a run, whichever process has them.

    Not in the user's folder: what is compiled with nothing kept is seen in every run.
    """
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if hasattr(request.config, "workerinput") else base
    return {"PYSHMEM_CACHE_DIR": str(shared / "kernels")}


@pytest.fixture(scope="session")
def compile_c(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """``compile_c(text, *options)``: a C program, with the flags that users ask for."""
    info = [sys.executable, "-m", "pyshmem", "info", "--cflags", "--libs"]
    flags = subprocess.run(info, capture_output=True, text=True, check=True).stdout.split()

    def build(text: str, *options: str) -> Path:
        folder = tmp_path_factory.mktemp("c")
        (folder / "program.c").write_text(text)
        command = ["gcc", "-std=gnu11", "-pthread", "-o", folder / "program", folder / "program.c"]
        done = subprocess.run([*command, *flags, *options], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return folder / "program"

    return build
