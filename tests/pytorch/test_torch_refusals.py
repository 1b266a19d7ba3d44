# SPDX-License-Identifier: BSD-3-Clause
"""What the backend of torch.distributed refuses, in words and on all members, and that it goes on."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="make test-torch installs it")

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


def check(run_pes: Callable, n: int, code: str, begin: str = BEGIN, **variables: str) -> None:
    program = begin + textwrap.dedent(code) + END
    done = run_pes(n, program, env={**VARIABLES, **variables}, timeout=100, check=True)
    assert done.stdout.splitlines().count("ok") == n, done.stdout


def test_ranks_that_a_group_lacks_are_refused(run_pes: Callable) -> None:
    code = """
    some = dist.new_group([0, 1])
    x = torch.ones(3)
    for rank in (-1, n, n + 5):
        for call in (
            lambda: dist.send(x, rank), lambda: dist.recv(x, rank),
            lambda: dist.isend(x, rank), lambda: dist.irecv(x, group_src=rank),
            lambda: dist.batch_isend_irecv([dist.P2POp(dist.isend, x, rank)]),
            lambda: dist.batch_isend_irecv([dist.P2POp(dist.irecv, x, rank)]),
            lambda: dist.broadcast(x, rank), lambda: dist.reduce(x, rank),
            lambda: dist.gather(x, None, rank), lambda: dist.scatter(x, None, rank),
        ):
            with pytest.raises(ValueError, match=rf"rank {rank}, which this group of {n} members"):
                call()
    with pytest.raises(TypeError, match="0.5 .float."):
        dist.send(x, 0.5)
    if me < 2:
        for call in (
            lambda: dist.send(x, group_dst=2, group=some), lambda: dist.recv(x, group_src=2, group=some)
        ):
            with pytest.raises(ValueError, match="rank 2, which this group of 2 members"):
                call()
        with pytest.raises(ValueError, match="not part of group"):  # torch says that
            dist.send(x, 2, group=some)
    """
    check(run_pes, 3, code)


def test_a_monitored_barrier_is_refused_as_the_page_says(run_pes: Callable) -> None:
    code = """
    with pytest.raises(ValueError, match="only implemented for GLOO"):
        dist.monitored_barrier()
    """
    check(run_pes, 2, code)
    page = (Path(__file__).parents[2] / "docs" / "torch.md").read_text()
    assert "`monitored_barrier`" in page
    assert "only implemented for GLOO" in page
