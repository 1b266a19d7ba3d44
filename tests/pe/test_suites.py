# SPDX-License-Identifier: BSD-3-Clause
"""The suites of tests/spmd, which every PE of a job runs, on each number of PEs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

SUITES = Path(__file__).parent.parent / "spmd"


def run_suite(name: str, n_pes: int, device: str, run_command: Callable[..., object]) -> None:
    command = [sys.executable, "-m", "pyshmem", "run", "-n", str(n_pes), "--device", device]
    command += ["--timeout", "280", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    run_command([*command, str(SUITES / name)], 295, check=True)


def test_host_suite(n_pes: int, run_command: Callable[..., object]) -> None:
    run_suite("host", n_pes, "none", run_command)


def test_device_suite_in_the_simulator(n_pes: int, run_command: Callable[..., object]) -> None:
    run_suite("device", n_pes, "sim", run_command)


@pytest.mark.gpu
def test_device_suite_on_gpus(n_pes: int, run_command: Callable[..., object]) -> None:
    run_suite("device", n_pes, "cuda", run_command)
