# SPDX-License-Identifier: BSD-3-Clause
"""What the tests of whole jobs share."""

from __future__ import annotations

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
