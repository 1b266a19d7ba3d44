# SPDX-License-Identifier: BSD-3-Clause
"""Kernels that give a fraction where a routine takes a whole number do not compile for GPUs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("cuda.bindings.nvvm", reason="NVVM is not installed")


@pytest.mark.timeout(300)
def test_a_fraction_in_place_of_a_whole_number_does_not_compile(tmp_path):
    environment = dict(os.environ, NUMBA_ENABLE_CUDASIM="0", PYSHMEM_DEVICE="cuda")
    environment |= {"PYSHMEM_CACHE_DIR": str(tmp_path)}
    script = str(Path(__file__).with_name("whole_numbers.py"))
    done = subprocess.run(
        [sys.executable, script], env=environment, capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(rows) == 33
    assert not [row for row in rows if not row["right"]]
