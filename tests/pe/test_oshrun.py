# SPDX-License-Identifier: BSD-3-Clause
"""The openshmem conduit, under plain ``oshrun``: no flag, no variable but leave to run as root."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest
from oshrun import EXAMPLES, PYTEST, SUITE, TESTS, launch, permission, reason_to_skip
from test_suites import SHORT

RunCommand = Callable[..., object]
Compiled = Callable[..., Path]

# Open MPI's own start and end fail now and then on a loaded machine: once more, and pytest says so.
pytestmark = [
    pytest.mark.skipif(bool(reason_to_skip()), reason=reason_to_skip() or "-"),
    pytest.mark.flaky(reruns=1),
]


def run(run_command: RunCommand, n: int, *arguments: str | Path, **variables: str):
    command = [*launch(n), sys.executable, *map(str, arguments)]
    return run_command(command, 280, **permission(), **variables)


def write(folder: Path, text: str) -> Path:
    path = folder / "program.py"
    path.write_text(text)
    return path


@pytest.mark.serial
@pytest.mark.parametrize("n_pes", [3])
def test_host_suite(n_pes: int, run_command: RunCommand) -> None:
    done = run(run_command, n_pes, *PYTEST, SUITE, check=True)
    assert "passed" in done.stdout


@pytest.mark.serial
@pytest.mark.parametrize("n_pes", [1, pytest.param(2, marks=pytest.mark.long), 4])
def test_a_part_of_the_host_suite(n_pes: int, run_command: RunCommand) -> None:
    files = [SUITE / file for file in SHORT["host"]]
    done = run(run_command, n_pes, *PYTEST, *files, check=True)
    assert "passed" in done.stdout


@pytest.mark.serial
def test_host_suite_by_the_librarys_own_calls(run_command: RunCommand) -> None:
    # Memory that no PE maps of another, as between hosts.
    variables = {"OMPI_MCA_sshmem": "mmap", "PYSHMEM_DEVICE": "none"}
    run(run_command, 2, *PYTEST, SUITE, check=True, **variables)


@pytest.mark.parametrize("n_pes", [2, 4])
@pytest.mark.parametrize("name", ["01_ring_put", "02_ping_pong", "04_pi"])
def test_example(name: str, n_pes: int, run_command: RunCommand) -> None:
    done = run(run_command, n_pes, EXAMPLES / f"{name}.py", check=True)
    assert "ok" in done.stdout


# ---- C programs ----------------------------------------------------------------------------------


FIXED = """
#include <shmem.h>
#include <stdio.h>
extern char **environ;
static int global;
int main(void) {
    shmem_init();
    if (environ[0] && shmem_addr_accessible(&global, 0))
        puts("good");
    shmem_finalize();
    return 0;
}
"""


@pytest.fixture(scope="module")
def flags() -> list[str]:
    command = [sys.executable, "-m", "pyshmem", "info", "--cflags", "--libs"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


@pytest.fixture
def compiled(flags: list[str], run_command: RunCommand, tmp_path: Path) -> Compiled:
    """``compiled(name, *options)``: a program of tests/native."""

    def build(name: str, *options: str) -> Path:
        program, source = tmp_path / name, TESTS / "native" / f"{name}.c"
        command = ["gcc", "-std=gnu11", *options, "-o", str(program), str(source)]
        run_command([*command, *flags, "-lpthread"], 60, check=True)
        return program

    return build


@pytest.mark.parametrize("memory", ["mapped", "not mapped"])
@pytest.mark.parametrize(
    "name", ["ring", "contexts", "exchanges", "threads", "claims", "requests", "generic", "strided"]
)
def test_c_program(name: str, memory: str, compiled: Compiled, run_command: RunCommand) -> None:
    # Its shmem_* are ours, and come first in the program: the library below must call its own.
    program = compiled(name)
    variables = {"OMPI_MCA_sshmem": "mmap"} if memory == "not mapped" else {}
    done = run_command([*launch(2), str(program)], 120, check=True, **permission(), **variables)
    assert "ok" in done.stdout


@pytest.mark.parametrize(
    ("way", "variables"),
    [
        ("mapped", {}),
        ("mapped", {"OMPI_MCA_sshmem": "mmap"}),
        ("copied", {"PYSHMEM_STATICS": "conduit"}),
        ("library", {"PYSHMEM_STATICS": "conduit", "OMPI_MCA_sshmem": "mmap"}),
    ],
)
@pytest.mark.parametrize("link", ["-pie", "-no-pie"])
def test_static_variables_of_a_c_program(
    link: str,
    way: str,
    variables: dict[str, str],
    compiled: Compiled,
    run_command: RunCommand,
) -> None:
    program = compiled("statics", link)
    done = run_command(
        [*launch(3), str(program), way], 120, check=True, **permission(), **variables
    )
    assert "ok" in done.stdout


def test_a_program_at_a_fixed_address(
    flags: list[str], run_command: RunCommand, tmp_path: Path
) -> None:
    # It has its own copy of libc's environ; the library below must use that one too.
    source, program = tmp_path / "fixed.c", tmp_path / "fixed"
    source.write_text(FIXED)
    run_command(["gcc", "-no-pie", "-o", str(program), str(source), *flags], 60, check=True)
    done = run_command([*launch(2), str(program)], 60, check=True, **permission())
    assert done.stdout.count("good") == 2


# ---- begin and end -------------------------------------------------------------------------------


INIT = "import pyshmem\npyshmem.init()\n"


def pythons() -> list[str]:
    """This one and, of the same version, the system's: how they are linked differs."""
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    system = f"/usr/bin/{version}"
    return [sys.executable, *([system] if os.access(system, os.X_OK) else [])]


@pytest.mark.parametrize("python", pythons())
def test_start_and_end_are_sound_every_time(
    python: str, run_command: RunCommand, tmp_path: Path
) -> None:
    packages = f"import site\nsite.addsitedir({sysconfig.get_path('purelib')!r})\n"
    program = write(tmp_path, packages + INIT + "pyshmem.barrier_all()\n")
    for _ in range(3):
        run_command([*launch(4), python, str(program)], 60, check=True, **permission())


def test_finalize_twice_is_harmless(run_command: RunCommand, tmp_path: Path) -> None:
    program = write(tmp_path, INIT + "pyshmem.finalize()\npyshmem.finalize()\nprint('good')\n")
    assert run(run_command, 2, program, check=True).stdout.count("good") == 2


def test_a_child_of_fork_may_exit(run_command: RunCommand, tmp_path: Path) -> None:
    text = """
import os, sys, pyshmem
with pyshmem.init():
    child = os.fork()
    if child == 0:
        sys.exit(3)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
    pyshmem.barrier_all()
print("good")
"""
    done = run(run_command, 2, write(tmp_path, text), check=True)
    assert done.stdout.count("good") == 2


def test_global_exit_ends_the_job_with_its_code(run_command: RunCommand, tmp_path: Path) -> None:
    text = INIT + "if pyshmem.my_pe() == 1: pyshmem.global_exit(7)\npyshmem.barrier_all()\n"
    done = run(run_command, 2, write(tmp_path, text))
    assert done.returncode == 7


@pytest.mark.parametrize(("way", "code"), [("g", 7), ("g", 0), ("e", 7), ("f", 1)])
def test_a_job_that_one_of_many_threads_ends(
    way: str, code: int, compiled: Compiled, run_command: RunCommand
) -> None:
    """By shmem_global_exit, exit or a mistake: no crash of the others, no waiting for them."""
    program = compiled("leaving")
    done = run_command([*launch(2), str(program), way, str(code)], 60, **permission())
    assert done.returncode == code, done.stderr
    assert "Signal" not in done.stderr, done.stderr
    assert done.stdout.count("left") == (1 if way == "e" else 2)  # oshrun kills who goes on


def test_a_script_that_does_not_start(run_command: RunCommand, tmp_path: Path) -> None:
    done = run(run_command, 2, write(tmp_path, INIT + "import no_such_module\n"))
    assert done.returncode != 0
    assert "No module named 'no_such_module'" in done.stderr


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
    time.sleep(60)
pyshmem.barrier_all()
"""
    done = run(run_command, 2, write(tmp_path, text), PYSHMEM_TIMEOUT="1")
    assert done.returncode != 0
    assert "barrier_all took longer than 1 s" in done.stderr
    assert re.search(r"PE 1 \(pid \d+\): running", done.stderr)


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


OLD = "void shmem_info_get_version(int *major, int *minor) { *major = 1; *minor = 3; }"


@pytest.fixture
def old_library(run_command: RunCommand, tmp_path: Path) -> Path:
    """What could be Sandia's library, of OpenSHMEM 1.3."""
    source, library = tmp_path / "old.c", tmp_path / "libsma.so.1"
    source.write_text(OLD)
    run_command(["gcc", "-shared", "-fPIC", "-o", str(library), str(source)], 60, check=True)
    return library


def test_a_library_that_is_too_old(
    old_library: Path, run_command: RunCommand, tmp_path: Path
) -> None:
    program = write(tmp_path, INIT)
    done = run(run_command, 1, program, PYSHMEM_OPENSHMEM_LIBRARY=str(old_library))
    assert done.returncode != 0
    assert "libsma.so.1 is OpenSHMEM 1.3; the openshmem conduit needs 1.4 or later" in done.stderr


def test_two_libraries_and_no_launcher_that_tells(
    old_library: Path, run_command: RunCommand
) -> None:
    command = [sys.executable, "-m", "pyshmem", "info"]
    done = run_command(
        command, 60, check=True, LD_LIBRARY_PATH=str(old_library.parent), COLUMNS="400"
    )
    text = " ".join(done.stdout.split())
    assert "two OpenSHMEM libraries were found" in text
    assert "PYSHMEM_OPENSHMEM_LIBRARY names" in text


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
