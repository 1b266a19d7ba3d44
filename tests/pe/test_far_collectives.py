# SPDX-License-Identifier: BSD-3-Clause
"""Collectives of kernels over several nodes: the same bytes go to a node once, whoever is there."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from oshrun import launch, permission, reason_to_skip

PROGRAM = Path(__file__).with_name("far_collectives.py")
SETTINGS = {"PYSHMEM_NODE_SIZE": "2", "PYSHMEM_STAGE_SIZE": "1M"}
#: Of a message, by the number of PEs that share a megabyte.
BYTES = {4: 16384, 5: 8192, 6: 8192}


@pytest.mark.parametrize("n_pes", BYTES)
def test_the_same_bytes_go_to_a_node_once(n_pes: int, run_pes: Callable) -> None:
    arguments = {"device": "sim", "env": SETTINGS, "timeout": 100}
    done = run_pes(n_pes, PROGRAM, [BYTES[n_pes]], check=True, **arguments)
    assert (done.stdout.count("ok"), done.stdout.count("mapped")) == (n_pes, n_pes)


@pytest.mark.flaky(reruns=1)  # as in test_oshrun.py
@pytest.mark.skipif(bool(reason_to_skip()), reason=reason_to_skip())
def test_the_same_by_an_openshmem_library(run_command: Callable) -> None:
    settings = {**SETTINGS, "PYSHMEM_DEVICE": "sim", "NUMBA_ENABLE_CUDASIM": "1", **permission()}
    command = [*launch(4), sys.executable, str(PROGRAM), str(BYTES[4])]
    done = run_command(command, 150, check=True, **settings)
    assert (done.stdout.count("ok"), done.stdout.count("mapped")) == (4, 4)
