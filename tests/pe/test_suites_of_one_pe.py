# SPDX-License-Identifier: BSD-3-Clause
"""The suites of tests/spmd on 1 PE: they keep one core busy, so other tests run beside them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from test_suites import SHORT, run_suite

RunCommand = Callable[..., object]


def test_host_suite_on_both_heaps(run_command: RunCommand) -> None:
    run_suite("host", 1, "sim", run_command)


@pytest.mark.parametrize("p2p", ["0", "1"])  # through the ring, and by loads and stores
def test_device_suite_in_the_simulator(p2p: str, run_command: RunCommand) -> None:
    run_suite("device", 1, "sim", run_command, only=SHORT["device"], PYSHMEM_P2P=p2p)


def test_triton_suite_in_the_interpreter(run_command: RunCommand) -> None:
    pytest.importorskip("triton")
    run_suite("triton", 1, "sim", run_command, only=SHORT["triton"])
