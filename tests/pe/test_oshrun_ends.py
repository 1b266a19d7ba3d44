# SPDX-License-Identifier: BSD-3-Clause
"""How jobs of the openshmem conduit end: beside MPI, without finalize, in barriers that not all call."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from oshrun import launch, permission, reason_to_skip

# Open MPI's own start and end fail now and then on a loaded machine: once more, and pytest says so.
pytestmark = [
    pytest.mark.skipif(bool(reason_to_skip()), reason=reason_to_skip() or "-"),
    pytest.mark.flaky(reruns=1),
]

MEMORY = {"mapped": {}, "not mapped": {"OMPI_MCA_sshmem": "mmap"}}

HYBRID = """
#include <mpi.h>
#include <shmem.h>
#include <stdio.h>
int main(int argc, char **argv) {
    int started;
    MPI_Init(&argc, &argv);
    for (int job = 0; job < 2; job++) {
        shmem_init();
        shmem_barrier_all();
        shmem_finalize();
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    MPI_Finalized(&started);
    puts(started ? "good" : "bad");
    return 0;
}
"""

PYTHON = """
import mpi4py
mpi4py.rc.finalize = False
from mpi4py import MPI
import pyshmem
with pyshmem.init():
    pyshmem.barrier_all()
MPI.Finalize()
try:
    pyshmem.init()
except pyshmem.ShmemError as error:
    assert "after MPI_Finalize" in str(error), error
    print("good", flush=True)
"""

UNMATCHED = """
#include <shmem.h>
int main(void) {
    shmem_init();
    shmem_barrier_all();
    if (shmem_my_pe() == 0)
        CALL;
    return 0;
}
"""

NEVER_FINALIZED = """
#include <shmem.h>
#include <stdio.h>
#include <unistd.h>
int main(void) {
    long *word;
    start_pes(0);
    word = shmem_malloc(sizeof *word);
    *word = 0;
    shmem_barrier_all();
    if (shmem_my_pe() == 0)
        shmem_long_p(word, 1, 1);
    else if (shmem_my_pe() == 1) /* PE 0 has left meanwhile, and nobody else is missed */
        usleep(300000), shmem_long_wait_until(word, SHMEM_CMP_EQ, 1);
    puts("good");
    return 0;
}
"""


def mpi_flags() -> list[str]:
    words = []
    for part in ("compile", "link"):
        command = ["mpicc", f"--showme:{part}"]
        words += subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return words


@pytest.mark.skipif(shutil.which("mpicc") is None, reason="needs mpicc")
@pytest.mark.parametrize("memory", MEMORY)
@pytest.mark.parametrize("n", [2, 4])
def test_mpi_may_be_finalised_last(
    n: int, memory: str, compile_c: Callable, run_command: Callable
) -> None:
    program = compile_c(HYBRID, *mpi_flags())
    done = run_command([*launch(n), str(program)], 60, check=True, **permission(), **MEMORY[memory])
    assert done.stdout.count("good") == n


def test_mpi_may_be_finalised_last_from_python(run_command: Callable, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PYTHON)
    command = [*launch(2), sys.executable, str(program)]
    done = run_command(command, 60, check=True, **permission(), PYSHMEM_DEVICE="none")
    assert done.stdout.count("good") == 2


@pytest.mark.parametrize("memory", MEMORY)
@pytest.mark.parametrize(
    ("call", "routine"),
    [
        ("shmem_barrier_all()", "barrier_all"),
        ("shmem_finalize()", "finalize"),
        ("shmem_malloc(8)", "malloc"),
    ],
)
def test_a_call_that_a_pe_has_ended_without_is_told(
    call: str, routine: str, memory: str, compile_c: Callable, run_command: Callable
) -> None:
    program = compile_c(UNMATCHED.replace("CALL", call))
    done = run_command([*launch(2), str(program)], 60, **permission(), **MEMORY[memory])
    assert done.returncode == 1, done.stderr
    assert f"PE 0: shmem_{routine}: PE 1 " in done.stderr
    assert "ended without finalize while this PE was in " in done.stderr


@pytest.mark.parametrize("memory", MEMORY)
def test_pes_may_end_one_after_the_other_without_finalize(
    memory: str, compile_c: Callable, run_command: Callable
) -> None:
    program = compile_c(NEVER_FINALIZED, "-Wno-deprecated-declarations")
    for _ in range(3):
        done = run_command(
            [*launch(3), str(program)], 60, check=True, **permission(), **MEMORY[memory]
        )
        assert done.stdout.count("good") == 3


OTHER_BUILD = """
from pyshmem._core.library import ffi, lib
config = ffi.new("ishmemx_config_t *")
assert lib.ishmemx_config_from_environment(config) == 0
other = ffi.new("char[]", b"9.8.7 for sparc")
if config.pe == 1:
    config.version = other
assert lib.ishmemx_init(config) == lib.ISHMEMX_ERR_MISMATCH
print(ffi.string(lib.ishmemx_error()).decode(), flush=True)
"""


def test_another_build_is_told_with_its_path(run_command: Callable, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(OTHER_BUILD)
    done = run_command([*launch(3), sys.executable, str(program)], 60, **permission())
    assert done.stdout.count("PE 1 runs pyshmem 9.8.7 for sparc, build ") == 3, done.stderr
    assert done.stdout.count("libpyshmem") == 6
