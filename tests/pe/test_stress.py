# SPDX-License-Identifier: BSD-3-Clause
"""Random operations of kernels against NumPy: ``tests/gpu/stress.py`` with few of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.serial

STRESS = Path(__file__).parents[1] / "gpu" / "stress.py"
WAYS = {
    "stores": {},
    "ring": {"PYSHMEM_P2P": "0"},
    "engines": {f"PYSHMEM_CUTOVER_{op}": "256" for op in ("PUT", "GET", "REDUCE")},
}
TWO_RINGS = {
    "engines": {**WAYS["engines"], "PYSHMEM_RINGS": "2"},
    "eight slots": {"PYSHMEM_P2P": "0", "PYSHMEM_RINGS": "2", "PYSHMEM_RING_SLOTS": "8"},
}

LIMITED = """
import os, runpy, sys
sys.path.insert(0, {folder!r})
sys.argv.append("0" if os.environ["PYSHMEM_PE"] == "0" else "1000000")
runpy.run_path({script!r}, run_name="__main__")
"""


def stress(
    n_pes: int,
    run_pes: Callable,
    device: str,
    operations: int,
    *options: str,
    **variables: str,
) -> None:
    heaps = {"PYSHMEM_HEAP_SIZE": "1G", "PYSHMEM_DEVICE_HEAP_SIZE": "1G", "PYSHMEM_TIMEOUT": "60"}
    given = ["--operations", str(operations), "--seed", str(n_pes), *options]
    done = run_pes(n_pes, STRESS, given, device=device, env=heaps | variables, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^mismatches +0$", done.stdout, re.MULTILINE)
    performed = re.search(r"^operations +(\d+)$", done.stdout, re.MULTILINE)
    assert performed
    assert int(performed[1]) >= operations


@pytest.mark.parametrize("way", WAYS)
def test_random_operations_leave_what_numpy_says(way: str, n_pes: int, run_pes: Callable) -> None:
    stress(n_pes, run_pes, "sim", 1500, **WAYS[way])


@pytest.mark.parametrize("way", TWO_RINGS)
def test_random_operations_through_two_rings(way: str, run_pes: Callable) -> None:
    stress(3, run_pes, "sim", 8000, "--heap", "device", **TWO_RINGS[way])


def test_it_ends_with_the_round_in_which_its_time_is_up(run_pes: Callable) -> None:
    """PE 0 has no time at all, and no PE goes on without it."""
    given = ["--operations", "1000000000", "--seconds"]
    done = run_pes(
        2,
        LIMITED.format(folder=str(STRESS.parent), script=str(STRESS)),
        given,
        device="sim",
        check=True,
        timeout=280,
    )
    assert re.search(r"^rounds +1$", done.stdout, re.MULTILINE)
    assert re.search(r"^operations +[1-9]\d*$", done.stdout, re.MULTILINE)
    assert re.search(r"^mismatches +0$", done.stdout, re.MULTILINE)


@pytest.mark.gpu
@pytest.mark.parametrize("way", WAYS)
def test_random_operations_on_gpus(way: str, n_pes: int, run_pes: Callable) -> None:
    stress(n_pes, run_pes, "cuda", 1000000, **WAYS[way])
