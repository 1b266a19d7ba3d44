# SPDX-License-Identifier: BSD-3-Clause
"""The suites of tests/spmd, which every PE of a job runs, on each number of PEs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from oshrun import PYTEST

SUITES = Path(__file__).parent.parent / "spmd"
RunCommand = Callable[..., object]


def run_suite(
    name: str, n_pes: int, device: str, run_command: RunCommand, **variables: str
) -> None:
    command = [sys.executable, "-m", "pyshmem", "run", "-n", str(n_pes), "--device", device]
    command += ["--timeout", "280", *PYTEST]
    run_command([*command, str(SUITES / name)], 295, check=True, **variables)


def test_host_suite_without_an_accelerator(run_command: RunCommand) -> None:
    run_suite("host", 2, "none", run_command)


def test_host_suite_on_both_heaps(n_pes: int, run_command: RunCommand) -> None:
    run_suite("host", n_pes, "sim", run_command)


def test_device_suite_in_the_simulator(n_pes: int, run_command: RunCommand) -> None:
    run_suite("device", n_pes, "sim", run_command)


def test_device_suite_with_peers_out_of_reach(n_pes: int, run_command: RunCommand) -> None:
    """Everything through the ring and the proxy."""
    run_suite("device", n_pes, "sim", run_command, PYSHMEM_P2P="0")


def test_device_suite_with_all_puts_by_the_copy_engine(run_command: RunCommand) -> None:
    run_suite("device", 3, "sim", run_command, PYSHMEM_CUTOVER_PUT="1", PYSHMEM_CUTOVER_GET="1")


def test_device_suite_through_two_short_rings(run_command: RunCommand) -> None:
    run_suite(
        "device", 2, "sim", run_command, PYSHMEM_P2P="0", PYSHMEM_RINGS="2", PYSHMEM_RING_SLOTS="8"
    )


@pytest.mark.parametrize("suite", ["host", "device"])
def test_suites_in_checking_mode(suite: str, run_command: RunCommand) -> None:
    run_suite(suite, 2, "sim", run_command, PYSHMEM_CHECK="1")


@pytest.mark.gpu
@pytest.mark.parametrize("suite", ["host", "device"])
def test_suites_on_gpus(suite: str, n_pes: int, run_command: RunCommand) -> None:
    run_suite(suite, n_pes, "cuda", run_command)
