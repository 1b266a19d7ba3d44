# SPDX-License-Identifier: BSD-3-Clause
"""Random operations over two hosts by UCX: what they leave and bring is what a model has."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from cluster import Cluster

PROGRAM = str(Path(__file__).parent / "random_operations.py")


def operate(times: int, cluster: Cluster, timeout: float) -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    for pe in cluster.run([PROGRAM, str(seed), str(times)], 2, 2, timeout):
        assert f"seed {seed}: as the model has it" in pe.out


def test_random_operations(cluster: Cluster) -> None:
    operate(16_000, cluster, 100)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_million_random_operations(cluster: Cluster) -> None:
    operate(1_000_000, cluster, 1500)
