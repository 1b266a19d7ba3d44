# SPDX-License-Identifier: BSD-3-Clause
"""A job after a job, or after an init that ended: thread levels, handles that end with theirs."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

RunPes = Callable[..., "subprocess.CompletedProcess[str]"]

PROGRAM = """
import pyshmem
from pyshmem import TEAM_NODE, TEAM_SHARED, TEAM_WORLD

levels = (
    pyshmem.THREAD_SINGLE, pyshmem.THREAD_FUNNELED, pyshmem.THREAD_SERIALIZED,
    pyshmem.THREAD_MULTIPLE,
)
for level in levels:
    assert not pyshmem.initialized()
    with pyshmem.init(thread_level=level) as job:
        assert pyshmem.query_thread() >= level
        team = TEAM_WORLD.split_strided(job.n_pes - 1, -1, job.n_pes)
        ctx, own = team.create_ctx(), pyshmem.Context()
        box = pyshmem.zeros(1, int)
        pyshmem.p(box, 5, 0, ctx=ctx)
        ctx.quiet()
        for predefined in (TEAM_WORLD, TEAM_SHARED, TEAM_NODE):
            assert predefined.n_pes() == job.n_pes
            predefined.sync()

    def fails(call, *kinds):
        try:
            call()
        except kinds:
            return
        raise SystemExit(f"{call} did not fail")

    for call in (
        team.n_pes, team.sync, TEAM_WORLD.n_pes, TEAM_WORLD.sync, pyshmem.query_thread,
        lambda: pyshmem.pe_accessible(0), lambda: pyshmem.p(box, 1, 0, ctx=own), pyshmem.Lock,
    ):
        fails(call, pyshmem.NotInitialized, ValueError)
    with pyshmem.init() as job:
        array = pyshmem.zeros(1, int)
        fails(team.sync, ValueError)
        fails(team.create_ctx, ValueError)
        fails(lambda: pyshmem.sum_reduce(array, array, team=team), ValueError)
        for context in (ctx, own):
            fails(lambda: pyshmem.p(array, 1, 0, ctx=context), ValueError, pyshmem.ShmemError)
            assert context.get_team() is None
            context.destroy()
        team.destroy()
try:
    pyshmem.init(thread_level=9)
except ValueError:
    print("ok")
"""


def test_handles_end_with_their_job(n_pes: int, run_pes: RunPes) -> None:
    result = run_pes(n_pes, PROGRAM, check=True)
    assert result.stdout.count("ok") == n_pes


@pytest.mark.parametrize("alone", [0, 1])
def test_a_signal_handler_ends_an_init_that_waits(
    alone: int, run_pes: RunPes, tmp_path: Path
) -> None:
    run_pes(
        2,
        """
        import os, signal, sys, pathlib, pyshmem
        alone, told = int(sys.argv[1]), pathlib.Path(sys.argv[2])
        def handler(*_):
            raise LookupError("from the handler")
        if int(os.environ["PYSHMEM_PE"]) == alone:
            signal.signal(signal.SIGALRM, handler)
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.5)
                pyshmem.init(heap_size="1M")
            except LookupError:
                told.touch()
            else:
                raise SystemExit("init went on")
        while not told.exists():
            pass
        with pyshmem.init(heap_size="1M"):
            pyshmem.barrier_all()
        """,
        [alone, tmp_path / "told"],
        timeout=20,
        check=True,
    )
