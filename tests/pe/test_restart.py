# SPDX-License-Identifier: BSD-3-Clause
"""A job after a job, in one process: thread levels, and handles that do not outlive theirs."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

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
