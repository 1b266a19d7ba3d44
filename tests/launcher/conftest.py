# SPDX-License-Identifier: BSD-3-Clause
"""What the tests of jobs on several hosts share."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from of_hosts import Job
from others import AGENT
from sshd import Hosts, made, reason_to_skip

HERE = [sys.executable, "-m", "pyshmem", "run", "--device", "none"]


@pytest.fixture(scope="session")
def ssh_hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    """Hosts a and b, which ssh reaches."""
    if reason := reason_to_skip():
        pytest.skip(reason)
    try:
        found = made(tmp_path_factory.mktemp("ssh"))
    except (subprocess.CalledProcessError, OSError) as error:
        pytest.skip(f"no hosts can be made here: {getattr(error, 'stderr', None) or error}")
    yield found
    found.close()


@pytest.fixture(params=["here", "ssh"])
def run(request: pytest.FixtureRequest) -> Callable[..., list[str]]:
    """``run(2, 3, *options)``: the beginning of a command that runs 2 PEs on one host, 3 on the other.

    Both are this machine, or namespaces that ssh reaches.
    """
    names, command = ["localhost", "localhost"], HERE
    if request.param == "ssh":
        names, command = ["a", "b"], request.getfixturevalue("ssh_hosts").run()

    def begin(*counts: int, options: tuple[str, ...] = ()) -> list[str]:
        where = [f"{name}:{n}" for name, n in zip(names, counts, strict=True)]
        return [*command, "--hosts", ",".join(where), *options]

    return begin


@pytest.fixture
def agent(tmp_path: Path) -> str:
    """What other launchers take for ssh."""
    made = tmp_path / "agent.sh"
    made.write_text(AGENT)
    made.chmod(0o755)
    return str(made)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Job]]:
    """``start(command, program)``: a job that is ended with the test."""
    jobs: list[Job] = []

    def begin(command: list[str], program: str, **how: Any) -> Job:
        folder = tmp_path / str(len(jobs))
        folder.mkdir()
        jobs.append(Job(command, program, folder, **how))
        return jobs[-1]

    yield begin
    for job in jobs:
        job.close()
