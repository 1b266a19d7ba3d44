# SPDX-License-Identifier: BSD-3-Clause
"""``PYSHMEM_CHECK=order`` on jobs that do not end by themselves: who waits for whom is told."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

HANGING = sorted(Path(__file__).parent.glob("hang/*.py"))


@pytest.mark.parametrize("program", HANGING, ids=lambda path: path.stem)
def test_who_waits_is_told(program: Path, run_command: Callable, tmp_path: Path) -> None:
    text, found = program.read_text(encoding="utf-8"), tmp_path / "found.json"
    ((n_pes, device),) = re.findall(r"PEs: (\d)(?:, with (\w+))?\.", text)
    command = [sys.executable, "-m", "pyshmem", "run", "-n", n_pes, "--device", device or "none"]
    done = run_command(
        [*command, "--timeout", "60", "--check=order", str(program)], 90,
        PYSHMEM_TIMEOUT="2", PYSHMEM_CHECK_JSON=str(found),
    )  # fmt: skip
    assert done.returncode not in (0, 3), done.stderr
    told = json.loads(found.read_text(encoding="utf-8"))
    assert not told["reports"]
    for line in re.findall("# Tells: (.*)", text):
        assert line in "\n".join(told["waits"]), told["waits"]
        assert line in done.stderr
    if "has ended its job" not in text:
        assert "has ended its job" not in done.stderr


def test_a_kill_loses_nothing_that_others_have_seen(run_command: Callable, tmp_path: Path) -> None:
    """What ordered a put is on file before its signal is seen, so there is no false report."""
    program = tmp_path / "killed.py"
    program.write_text(
        """import os, signal
import numpy as np
import pyshmem

with pyshmem.init(device="none") as job:
    data, flag = pyshmem.zeros(4, np.int64), pyshmem.new_signal()
    if job.my_pe == 0:
        pyshmem.put(data, np.arange(4), 1)
        pyshmem.quiet()
        pyshmem.signal_set(flag, 1, 1)
        os.kill(os.getpid(), signal.SIGKILL)
    pyshmem.signal_wait_until(flag, pyshmem.CMP_EQ, 1)
    print(data.sum())
""",
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "pyshmem", "run", "-n", "2", "--device", "none"]
    done = run_command([*command, "--check=order", str(program)], 90)
    assert done.returncode == 128 + 9
    assert "nothing orders" not in done.stderr
