# SPDX-License-Identifier: BSD-3-Clause
"""PEs that another launcher started find each other: mpirun, and torchrun's variables."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

PROGRAM = """
import numpy as np, pyshmem
with pyshmem.init():
    me, n = pyshmem.my_pe(), pyshmem.n_pes()
    inbox = pyshmem.zeros(1, dtype=np.int64)
    pyshmem.put(inbox, np.array([me + 1]), (me + 1) % n)
    pyshmem.barrier_all()
    print(f"PE {me} of {n} got {inbox[0]}", flush=True)
"""


def expected(n: int) -> list[str]:
    return sorted(f"PE {pe} of {n} got {(pe - 1) % n + 1}" for pe in range(n))


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return str(path)


def clean() -> dict[str, str]:
    prefixes = ("PYSHMEM_", "OMPI_COMM_", "PMI_", "PMIX_", "PALS_", "SLURM_", "FLUX_", "RANK")
    prefixes += ("WORLD_SIZE", "LOCAL_", "MASTER_", "TORCHELASTIC_")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(prefixes)}
    return environment | {"PYSHMEM_DEVICE": "none"}


@pytest.fixture
def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def run_all(program: str, environments: list[dict[str, str]]) -> Iterator[tuple[int, str, str]]:
    """One process an environment; exit status, stdout and stderr of each."""
    processes = [
        subprocess.Popen(
            [sys.executable, program],
            env=clean() | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for environment in environments
    ]
    try:
        for process in processes:
            output, errors = process.communicate(timeout=120)
            yield process.returncode, output, errors
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def test_a_program_started_alone_is_one_pe(program: str) -> None:
    assert list(run_all(program, [{}])) == [(0, "PE 0 of 1 got 1\n", "")]


def test_torchrun_variables(program: str, n_pes: int, free_port: int) -> None:
    common = {"WORLD_SIZE": str(n_pes), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port)}
    results = list(
        run_all(
            program,
            [common | {"RANK": str(pe), "LOCAL_RANK": str(pe)} for pe in range(n_pes)],
        )
    )
    assert [status for status, _, _ in results] == [0] * n_pes, results
    assert sorted(output.strip() for _, output, _ in results) == expected(n_pes)


#: Variables of launchers on one host: of the PE, of all PEs, and the job's name.
LAUNCHERS = {
    "srun": (("SLURM_PROCID", "SLURM_LOCALID"), ("SLURM_STEP_NUM_TASKS",), "SLURM_JOB_ID"),
    "hydra": (("PMI_RANK", "MPI_LOCALRANKID"), ("PMI_SIZE", "MPI_LOCALNRANKS"), "PMI_JOBID"),
    "PALS": (("PALS_RANKID", "PALS_LOCAL_RANKID"), ("PMI_SIZE", "PALS_LOCAL_SIZE"), "PALS_APID"),
    "Flux": (("FLUX_TASK_RANK", "FLUX_TASK_LOCAL_ID"), ("FLUX_JOB_SIZE",), "FLUX_JOB_ID"),
}


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_variables_of_other_launchers(launcher: str, program: str) -> None:
    of_pe, of_all, job = LAUNCHERS[launcher]
    common = dict.fromkeys(of_all, "2") | {job: uuid.uuid4().hex}
    common |= {"SLURM_STEP_ID": "0"} if launcher == "srun" else {}
    results = list(run_all(program, [common | dict.fromkeys(of_pe, pe) for pe in "01"]))
    assert [status for status, _, _ in results] == [0, 0], results
    assert sorted(output.strip() for _, output, _ in results) == expected(2)


def test_two_jobs_side_by_side_do_not_meet(program: str, free_port: int) -> None:
    environments = [
        {
            "RANK": str(pe),
            "WORLD_SIZE": "2",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(free_port),
            "TORCHELASTIC_RUN_ID": job,
        }
        for job in ("one", "two")
        for pe in range(2)
    ]
    results = list(run_all(program, environments))
    assert [status for status, _, _ in results] == [0] * 4, results
    assert sorted(output.strip() for _, output, _ in results) == sorted(expected(2) * 2)


def test_a_rank_outside_the_world_is_refused(program: str) -> None:
    [(status, _, errors)] = run_all(program, [{"RANK": "7", "WORLD_SIZE": "4"}])
    assert status != 0
    assert "7" in errors
    assert "4" in errors


def test_mpirun(program: str, n_pes: int) -> None:
    mpirun = shutil.which("mpirun")
    if mpirun is None:
        pytest.skip("mpirun is not installed")
    allow = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    options = ["--oversubscribe"] if _is_open_mpi(mpirun) else []
    done = subprocess.run(
        [mpirun, *options, "-n", str(n_pes), sys.executable, program],
        env=clean() | allow,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == expected(n_pes)


def _is_open_mpi(mpirun: str) -> bool:
    done = subprocess.run([mpirun, "--version"], capture_output=True, text=True, timeout=60)
    return "Open MPI" in done.stdout
