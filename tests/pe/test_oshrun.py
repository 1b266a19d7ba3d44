# SPDX-License-Identifier: BSD-3-Clause
"""The openshmem conduit, under plain ``oshrun``: no flag, no variable but leave to run as root."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from oshrun import EXAMPLES, PYTEST, SUITE, launch, permission, reason_to_skip

RunCommand = Callable[..., object]

pytestmark = pytest.mark.skipif(bool(reason_to_skip()), reason=reason_to_skip() or "-")


def run(run_command: RunCommand, n: int, *arguments: str | Path, **variables: str):
    command = [*launch(n), sys.executable, *map(str, arguments)]
    return run_command(command, 280, **permission(), **variables)


def write(folder: Path, text: str) -> Path:
    path = folder / "program.py"
    path.write_text(text)
    return path


def test_host_suite(n_pes: int, run_command: RunCommand) -> None:
    done = run(run_command, n_pes, *PYTEST, SUITE, check=True)
    assert "passed" in done.stdout


def test_host_suite_by_the_librarys_own_calls(run_command: RunCommand) -> None:
    # Memory that no PE maps of another, as between hosts.
    variables = {"OMPI_MCA_sshmem": "mmap", "PYSHMEM_DEVICE": "none"}
    run(run_command, 2, *PYTEST, SUITE, check=True, **variables)


@pytest.mark.parametrize("name", ["00_hello", "01_ring_put", "02_ping_pong", "04_pi"])
def test_example(name: str, n_pes: int, run_command: RunCommand) -> None:
    done = run(run_command, n_pes, EXAMPLES / f"{name}.py", check=True)
    alone = n_pes == 1 and name == "02_ping_pong"
    assert ("needs two PEs" if alone else "ok") in done.stdout


INIT = "import pyshmem\npyshmem.init()\n"


def test_start_and_end_are_sound_every_time(run_command: RunCommand, tmp_path: Path) -> None:
    program = write(tmp_path, INIT + "pyshmem.barrier_all()\n")
    for _ in range(6):
        run(run_command, 4, program, check=True)


def test_jobs_one_after_the_other(run_command: RunCommand, tmp_path: Path) -> None:
    text = """
import numpy as np, pyshmem
def once(i):
    with pyshmem.init() as job:
        box = pyshmem.zeros(4, dtype=np.int64)
        pyshmem.put(box, np.full(4, job.my_pe + i), (job.my_pe + 1) % job.n_pes)
        pyshmem.barrier_all()
        assert (box == (job.my_pe - 1) % job.n_pes + i).all()
for i in range(3):
    once(i)
print("good")
"""
    done = run(run_command, 2, write(tmp_path, text), check=True)
    assert done.stdout.count("good") == 2


def test_an_exception_is_told_to_the_others(run_command: RunCommand, tmp_path: Path) -> None:
    text = INIT + "if pyshmem.my_pe() == 1: raise ValueError('bad luck')\npyshmem.barrier_all()\n"
    done = run(run_command, 2, write(tmp_path, text))
    assert done.returncode != 0
    assert "ValueError: bad luck" in done.stderr


def test_a_timeout_tells_where_the_pes_stand(run_command: RunCommand, tmp_path: Path) -> None:
    text = """
import time, pyshmem
pyshmem.init()
if pyshmem.my_pe() == 1:
    time.sleep(4)
pyshmem.barrier_all()
"""
    done = run(run_command, 2, write(tmp_path, text), PYSHMEM_TIMEOUT="1")
    assert done.returncode != 0
    assert "barrier_all took longer than 1 s" in done.stderr
    assert "PE 1: running" in done.stderr


@pytest.mark.parametrize(
    ("library", "message"),
    [
        ("/no/such/liboshmem.so", "/no/such/liboshmem.so: cannot open shared object file"),
        ("libm.so.6", "has no shmem_init_thread: it is no OpenSHMEM library"),
    ],
)
def test_a_library_that_is_none(
    library: str, message: str, run_command: RunCommand, tmp_path: Path
) -> None:
    program = write(tmp_path, INIT)
    done = run(run_command, 1, program, PYSHMEM_OPENSHMEM_LIBRARY=library)
    assert done.returncode != 0
    assert message in done.stderr


def test_our_own_launcher_says_what_to_use(run_command: RunCommand, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pyshmem", "run", "-n", "2", str(write(tmp_path, INIT))]
    done = run_command(command, 60, PYSHMEM_CONDUIT="openshmem")
    assert done.returncode != 0
    assert "oshrun -n 2" in done.stderr


def test_mpirun_keeps_to_shared_memory(run_command: RunCommand, tmp_path: Path) -> None:
    text = INIT + "print('liboshmem' in open('/proc/self/maps').read())\n"
    program = write(tmp_path, text)
    command = ["mpirun", "-n", "1", sys.executable, str(program)]
    assert "False" in run_command(command, 60, check=True, **permission()).stdout
    assert "True" in run(run_command, 1, program, check=True).stdout


def test_info_names_the_library(run_command: RunCommand) -> None:
    done = run_command([sys.executable, "-m", "pyshmem", "info"], 60, check=True)
    assert "OpenSHMEM 1." in " ".join(done.stdout.split())
