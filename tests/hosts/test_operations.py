# SPDX-License-Identifier: BSD-3-Clause
"""Random operations over two hosts by UCX: what they leave and bring is what a model has."""

from __future__ import annotations

from pathlib import Path

import pytest
from cluster import Cluster
from environment import random_seed

PROGRAM = str(Path(__file__).parent / "random_operations.py")


def operate(times: int, cluster: Cluster, timeout: float, *more: str) -> None:
    seed = random_seed()
    for pe in cluster.run([PROGRAM, str(seed), str(times), *more], 2, 2, timeout):
        assert f"seed {seed}: as the model has it" in pe.out


def test_random_operations(cluster: Cluster) -> None:
    operate(16_000, cluster, 100)


def test_random_operations_while_memory_comes_and_goes(cluster: Cluster) -> None:
    operate(8_000, cluster, 100, "memory")


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("more", [(), ("memory",)], ids=["heap", "memory"])
def test_a_million_random_operations(cluster: Cluster, more: tuple[str, ...]) -> None:
    operate(1_000_000, cluster, 1500, *more)
