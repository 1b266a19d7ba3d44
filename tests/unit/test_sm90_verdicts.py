# SPDX-License-Identifier: BSD-3-Clause
"""The compiler for GPUs takes and refuses what the simulator does: the table of ``kernel_verdicts``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("cuda.bindings.nvvm", reason="NVVM is not installed")


@pytest.mark.long
@pytest.mark.timeout(1000)
def test_the_compiler_gives_the_verdicts_of_the_table(tmp_path):
    environment = dict(os.environ, NUMBA_ENABLE_CUDASIM="0", PYSHMEM_DEVICE="cuda")
    environment |= {"PYSHMEM_KERNEL_STORE": "text", "PYSHMEM_CACHE_DIR": str(tmp_path)}
    script = str(Path(__file__).with_name("sm90_verdicts.py"))
    of = min(4, os.cpu_count() or 1)
    runs = [
        subprocess.Popen(
            [sys.executable, script, str(share), str(of)],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        for share in range(of)
    ]
    texts = [run.communicate(timeout=900)[0] for run in runs]
    assert not any(run.returncode for run in runs)
    rows = [json.loads(line) for text in texts for line in text.splitlines()]
    assert sum(row.get("cases", 0) for row in rows) > 400
    assert not [row for row in rows if "wanted" in row]
