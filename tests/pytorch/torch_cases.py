# SPDX-License-Identifier: BSD-3-Clause
"""Programs of a few lines on a process group of all PEs."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

#: A call that is not refused may wait: it ends with a report.
VARIABLES = {"OMP_NUM_THREADS": "1", "PYSHMEM_TIMEOUT": "20"}

BEGIN = """
import pytest, torch, torch.distributed as dist
import pyshmem, pyshmem.interop.torch as symmetric
symmetric.init_process_group()
me, n = dist.get_rank(), dist.get_world_size()
"""
END = """
total = torch.ones(2)
dist.all_reduce(total)
assert (total == n).all()
dist.destroy_process_group()
print("ok", flush=True)
"""


def check_under_torchrun(run_command: Callable, program: Path, **variables: str) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    variables = {"PYSHMEM_DEVICE": "none", **variables}
    done = run_command([*command, str(program)], 120, check=True, **variables)
    assert done.stdout.splitlines().count("ok") == 2


def check(
    run_pes: Callable, n: int, code: str, begin: str = BEGIN, device: str = "none", **variables: str
) -> None:
    program = begin + textwrap.dedent(code) + END
    env = {**VARIABLES, **variables}
    done = run_pes(n, program, device=device, env=env, timeout=100, check=True)
    assert done.stdout.splitlines().count("ok") == n, done.stdout
