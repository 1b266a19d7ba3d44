# SPDX-License-Identifier: BSD-3-Clause
"""The suites of tests/spmd, which every PE of a job runs, on each number of PEs."""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from oshrun import PYTEST

pytestmark = pytest.mark.serial

SUITES = Path(__file__).parent.parent / "spmd"
RunCommand = Callable[..., object]


def run_suite(
    name: str,
    n_pes: int,
    device: str,
    run_command: RunCommand,
    only: tuple[str, ...] = (),
    **variables: str,
) -> None:
    """The suite, or ``only`` these files of it, as a job; ``variables`` go to its environment."""
    command = [sys.executable, "-m", "pyshmem", "run", "-n", str(n_pes), "--device", device]
    command += ["--timeout", "280", *PYTEST]
    files = [str(SUITES / name / file) for file in only or [""]]
    run_command([*command, *files], 295, check=True, **variables)


#: Where a whole suite has run in a way that differs little: the files that differ most in what they do.
SHORT = {
    "host": ("test_host_rma.py", "test_host_collectives.py", "test_host_teams.py"),
    "device": ("test_put_get.py", "test_signals.py", "test_waits.py", "test_collectives.py"),
    "triton": ("test_tiles.py", "test_signals.py", "test_collectives.py", "test_tasks.py"),
}


def test_host_suite_without_an_accelerator(run_command: RunCommand) -> None:
    """Under oshrun all of it runs so."""
    run_suite("host", 2, "none", run_command, only=SHORT["host"])


@pytest.mark.parametrize("n_pes", [3, 4])  # on 2 in checking mode, and on 3 whole under oshrun
def test_host_suite_on_both_heaps(n_pes: int, run_command: RunCommand) -> None:
    run_suite("host", n_pes, "sim", run_command, only=SHORT["host"])


#: Of the device suite what the simulator alone has, or has more of than kernels compiled for the CPU,
#: on which all of it runs (``test_suites_on_cpu.py``).
INTERPRETED = tuple(
    f"test_{name}.py"
    for name in ("host_only", "routine_examples", "arguments", "verdicts", "faults", "traps", "ll")
)


@pytest.mark.parametrize(  # 1 PE in test_suites_of_one_pe, 2 through short rings
    ("n_pes", "only"), [(3, INTERPRETED), (4, SHORT["device"])]
)
def test_device_suite_in_the_simulator(
    n_pes: int, only: tuple[str, ...], run_command: RunCommand
) -> None:
    run_suite("device", n_pes, "sim", run_command, only=only)


@pytest.mark.parametrize("suite", ["host", "device"])
def test_a_suite_on_a_heap_that_grows(suite: str, run_command: RunCommand) -> None:
    """What the suites ask for is less than a heap has by itself, so it begins with 1 MiB."""
    run_suite(suite, 2, "sim", run_command, only=SHORT[suite], PYSHMEM_DEVICE_HEAP_GROWS="1")


@pytest.mark.long
@pytest.mark.parametrize("suite", ["host", "device"])
def test_a_whole_suite_on_a_heap_that_grows(suite: str, run_command: RunCommand) -> None:
    run_suite(suite, 2, "sim", run_command, PYSHMEM_DEVICE_HEAP_GROWS="1")


@pytest.mark.long  # on 2 in checking mode
@pytest.mark.parametrize("n_pes", [1, 3, 4])
def test_whole_device_suite_in_the_simulator(n_pes: int, run_command: RunCommand) -> None:
    run_suite("device", n_pes, "sim", run_command)


@pytest.mark.long  # what goes through two short rings stands for it in make test
def test_device_suite_with_peers_out_of_reach(run_command: RunCommand) -> None:
    """Everything through the ring and the proxy."""
    run_suite("device", 3, "sim", run_command, PYSHMEM_P2P="0")


def test_what_goes_through_two_short_rings(run_command: RunCommand) -> None:
    variables = {"PYSHMEM_P2P": "0", "PYSHMEM_RINGS": "2", "PYSHMEM_RING_SLOTS": "8"}
    run_suite("device", 2, "sim", run_command, only=SHORT["device"], **variables)


@pytest.mark.long
def test_host_suite_in_checking_mode(run_command: RunCommand) -> None:
    run_suite("host", 2, "sim", run_command, PYSHMEM_CHECK="1")


@pytest.mark.long
def test_device_suite_in_checking_mode_with_copies_by_the_engine(run_command: RunCommand) -> None:
    variables = {"PYSHMEM_CHECK": "1", "PYSHMEM_CUTOVER_PUT": "1", "PYSHMEM_CUTOVER_GET": "1"}
    run_suite("device", 2, "sim", run_command, **variables)


IN_PLACE = (
    "test_collectives.py::test_any_root_and_in_place",
    "test_collectives_reduce.py::test_in_place_and_longer_than_the_stage",
    "test_reduce_scatter.py::test_in_place",
)


@pytest.mark.parametrize("only", [IN_PLACE, pytest.param((), marks=pytest.mark.long)])
def test_device_suite_in_checking_mode_with_peers_out_of_reach(
    only: tuple[str, ...], run_command: RunCommand
) -> None:
    """What the library's own routines ask of the host passes its checks, too."""
    variables = {"PYSHMEM_CHECK": "1", "PYSHMEM_P2P": "0"}
    run_suite("device", 2, "sim", run_command, only=only, **variables)


def test_kernels_with_late_messages(
    run_command: RunCommand, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a seed of its own each time, which is printed. A test that polls a word is told: 3."""
    seed = random.SystemRandom().randrange(1 << 31)
    with capsys.disabled():
        print(f"\n--check=deliver --seed {seed}")
    command = [
        sys.executable,
        "-m",
        "pyshmem",
        "run",
        "-n",
        "2",
        "--device",
        "sim",
        "--timeout",
        "280",
    ]
    command += ["--check=deliver", "--seed", str(seed), *PYTEST]
    files = [str(SUITES / "device" / file) for file in ("test_put_get.py", "test_signals.py")]
    done: Any = run_command([*command, *files], 295)
    assert done.returncode in (0, 3), done.stdout + done.stderr
    assert re.search(r"\d+ passed", done.stdout), done.stdout + done.stderr


@pytest.mark.gpu
@pytest.mark.parametrize("suite", ["host", "device"])
def test_suites_on_gpus(suite: str, n_pes: int, run_command: RunCommand) -> None:
    run_suite(suite, n_pes, "cuda", run_command)
