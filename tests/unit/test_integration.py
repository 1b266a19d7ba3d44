# SPDX-License-Identifier: BSD-3-Clause
"""What the library does to Numba when kernels load and are launched; see ``integration_checks.py``."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("integration_checks.py")
CHECKS = [
    node.name
    for node in ast.parse(SCRIPT.read_text()).body
    if isinstance(node, ast.FunctionDef) and node.name not in ("started", "module", "interrupted")
]


@pytest.mark.parametrize("check", CHECKS)
def test_integration(check):
    environment = dict(os.environ, NUMBA_ENABLE_CUDASIM="0", PYSHMEM_DEVICE="cuda")
    environment["PYSHMEM_KERNEL_STORE"] = "none"
    command = [sys.executable, str(SCRIPT), check]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
