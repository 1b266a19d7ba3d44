# SPDX-License-Identifier: BSD-3-Clause
"""Programs of a few lines on a process group of all PEs."""

from __future__ import annotations

import textwrap
from collections.abc import Callable

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


def check(
    run_pes: Callable, n: int, code: str, begin: str = BEGIN, device: str = "none", **variables: str
) -> None:
    program = begin + textwrap.dedent(code) + END
    env = {**VARIABLES, **variables}
    done = run_pes(n, program, device=device, env=env, timeout=100, check=True)
    assert done.stdout.splitlines().count("ok") == n, done.stdout
