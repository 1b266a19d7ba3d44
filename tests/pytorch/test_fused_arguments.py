# SPDX-License-Identifier: BSD-3-Clause
"""What all operations of pyshmem.fused refuse; the program walks them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="make test-torch installs it")
pytest.importorskip("triton")

PROGRAM = Path(__file__).parent / "programs" / "fused_arguments.py"


@pytest.mark.parametrize(
    ("n", "variables"),
    [(1, {}), (2, {}), (3, {}), (2, {"PYSHMEM_CHECK": "1"})],
    ids=["1", "2", "3", "2-checked"],
)
def test_every_operation_refuses_what_is_wrong_with_its_arguments(
    n: int, variables: dict, run_pes: Callable
) -> None:
    env = {"OMP_NUM_THREADS": "1", "PYSHMEM_TIMEOUT": "60", **variables}
    done = run_pes(n, PROGRAM, device="sim", timeout=280, env=env, check=True)
    assert done.stdout.splitlines().count("ok") == n, done.stdout
