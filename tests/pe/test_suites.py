# SPDX-License-Identifier: BSD-3-Clause
"""The suites of tests/spmd, which every PE of a job runs, on each number of PEs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

SUITES = Path(__file__).parent.parent / "spmd"
RunCommand = Callable[..., object]


def run_suite(
    name: str, n_pes: int, device: str, run_command: RunCommand, **variables: str
) -> None:
    command = [sys.executable, "-m", "pyshmem", "run", "-n", str(n_pes), "--device", device]
    command += ["--timeout", "280", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    run_command([*command, str(SUITES / name)], 295, check=True, **variables)


def test_host_suite_without_an_accelerator(run_command: RunCommand) -> None:
    run_suite("host", 2, "none", run_command)


def test_host_suite_on_both_heaps(n_pes: int, run_command: RunCommand) -> None:
    run_suite("host", n_pes, "sim", run_command)


def test_device_suite_in_the_simulator(n_pes: int, run_command: RunCommand) -> None:
    run_suite("device", n_pes, "sim", run_command)


def test_device_suite_without_p2p(n_pes: int, run_command: RunCommand) -> None:
    run_suite("device", n_pes, "sim", run_command, PYSHMEM_P2P="0")


@pytest.mark.parametrize("pes", [2, 3])
def test_device_suite_by_copy_engines_alone(pes: int, run_command: RunCommand) -> None:
    cutover = {"PYSHMEM_CUTOVER_PUT": "1", "PYSHMEM_CUTOVER_GET": "1"}
    run_suite("device", pes, "sim", run_command, **cutover)


@pytest.mark.parametrize("p2p", ["0", "1"])
def test_device_suite_with_a_ring_of_eight_slots(p2p: str, run_command: RunCommand) -> None:
    """Every cell is used again and again, and senders wait for credit."""
    few = {"PYSHMEM_P2P": p2p, "PYSHMEM_RING_SLOTS": "8", "PYSHMEM_CUTOVER_PUT": "1"}
    run_suite("device", 2, "sim", run_command, **few)


@pytest.mark.parametrize("suite", ["host", "device"])
def test_suites_in_checking_mode(suite: str, run_command: RunCommand) -> None:
    run_suite(suite, 2, "sim", run_command, PYSHMEM_CHECK="1")


@pytest.mark.gpu
@pytest.mark.parametrize("suite", ["host", "device"])
def test_suites_on_gpus(suite: str, n_pes: int, run_command: RunCommand) -> None:
    run_suite(suite, n_pes, "cuda", run_command)
