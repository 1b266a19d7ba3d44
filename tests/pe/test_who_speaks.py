# SPDX-License-Identifier: BSD-3-Clause
"""Messages of C programs name the PE whenever it can be known."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

PROGRAM = """
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv) {
    switch (argc, argv[1][0]) {
    case 'b': /* before init */
        shmem_barrier_all();
        break;
    case 'a': /* after finalize */
        shmem_init();
        shmem_finalize();
        shmem_barrier_all();
        break;
    case 'f': /* in finalize, where the last PE gives up */
        shmem_init();
        shmem_barrier_all();
        if (shmem_my_pe() == shmem_n_pes() - 1) {
            usleep(300000);
            shmem_putmem(argv, argv, 8, 0);
        }
        shmem_finalize();
        break;
    case 'c': /* in a child of fork() */
        shmem_init();
        if (fork() == 0)
            shmem_barrier_all();
        wait(NULL);
        exit(0);
    }
    return 0;
}
"""


@pytest.fixture(scope="module")
def program(compile_c: Callable) -> Path:
    return compile_c(PROGRAM, "-Wno-unused-value")


@pytest.mark.parametrize(
    ("when", "message"),
    [
        ("b", "shmem_barrier_all: pyshmem is not initialised"),
        ("a", "shmem_barrier_all: pyshmem is finalised"),
        ("f", "shmem_(finalize: the job is being aborted|putmem: )"),
    ],
)
def test_every_pe_says_which_it_is(when: str, message: str, program: Path, run_pes) -> None:
    done = run_pes(3, program, [when])
    assert done.returncode == 1
    told = set(re.findall(rf"(?m)^(PE \S+): {message}", done.stderr))
    # The launcher may end PEs before they have come to speak, but in finalize all wait for the last.
    told = {line[0] if isinstance(line, tuple) else line for line in told}
    assert told <= {"PE 0", "PE 1", "PE 2"}
    assert told
    assert when != "f" or len(told) == 3, done.stderr


def test_a_child_of_fork_says_whose_it_is(program: Path, run_pes: Callable) -> None:
    done = run_pes(1, program, ["c"])
    assert "a child of PE 0: shmem_barrier_all: PE 0 forked this process" in done.stderr


def test_without_a_launcher_it_says_when_it_is(program: Path, run_command: Callable) -> None:
    done = run_command([program, "b"], 30)
    assert done.stderr.startswith("before init: shmem_barrier_all: pyshmem is not initialised")


def test_another_launchers_number_is_known(program: Path, run_command: Callable) -> None:
    done = run_command([program, "b"], 30, OMPI_COMM_WORLD_RANK="5", OMPI_COMM_WORLD_SIZE="8")
    assert done.stderr.startswith("PE 5: shmem_barrier_all: pyshmem is not initialised")


def test_the_shell_asks_one_function() -> None:
    for path in (ROOT / "native" / "src" / "api").glob("*.c"):
        assert not re.search(r'printf\([^;]*"PE %d', path.read_text()), path
