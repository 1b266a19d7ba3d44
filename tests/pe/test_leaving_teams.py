# SPDX-License-Identifier: BSD-3-Clause
"""Members that leave a team while others are in its collectives: those end, and with no result."""

from __future__ import annotations

from collections.abc import Callable

import pytest

#: Each collective of a team: ``a`` and ``b`` hold few elements a PE, ``x`` and ``y`` more than a stage.
CALLS = {
    "sync": "team.sync()",
    "reduce": "pyshmem.sum_reduce(b[:4], a[:4], team=team)",
    "reduce, many": "pyshmem.sum_reduce(y[:9000], x[:9000], team=team)",
    "reduce_scatter": "pyshmem.sum_reduce_scatter(b[:1], a[:n], team=team)",
    "broadcast": "pyshmem.broadcast(b[:4], a[:4], root=1, team=team)",
    "broadcast, many": "pyshmem.broadcast(y[:9000], x[:9000], root=1, team=team)",
    "fcollect": "pyshmem.fcollect(b, a[:4], team=team)",
    "fcollect, many": "pyshmem.fcollect(y, x[:9000], team=team)",
    "collect": "pyshmem.collect(b, a[:4], team=team)",
    "collect, many": "pyshmem.collect(y, x[:9000], team=team)",
    "alltoall": "pyshmem.alltoall(b[:n], a[:n], team=team)",
    "alltoall, many": "pyshmem.alltoall(y, x, team=team)",
    "alltoalls": "pyshmem.alltoalls(y[: 4 * n], x[: 2 * n], dst=2, nelems=2, team=team)",
    "scan": "pyshmem.sum_inscan(b[:4], a[:4], team=team)",
    "scan, many": "pyshmem.sum_exscan(y[:9000], x[:9000], team=team)",
    "request": "pyshmem.sum_reduce_nb(b[:4], a[:4], team=team).wait()",
    "request, sync": "pyshmem.sync_nb(team).wait()",
    "split": "team.split_strided(0, 1, 1)",
    "split by colour": "team.split(0)",
}

PROGRAM = """
import time, numpy as np, pyshmem
CALLS = {calls!r}
with pyshmem.init(heap_size="8M") as job:
    me, n = job.my_pe, job.n_pes
    a, b = (pyshmem.ones(4 * n, dtype=np.int64) for _ in range(2))
    x, y = (pyshmem.ones(9000 * n, dtype=np.int64) for _ in range(2))
    for name, call in CALLS.items():
        team = pyshmem.TEAM_WORLD.split_strided(0, 1, n)
        pyshmem.sum_reduce(b[:4], a[:4], team=team)
        before = b.tolist(), y.tolist()
        late = len(name) % 2
        pyshmem.barrier_all()
        if me == 0:
            time.sleep(0.05 * late)
            team.destroy()
        else:
            time.sleep(0.05 * (1 - late))
            for again in range(2):
                try:
                    eval(call)
                    print("no error:", name)
                except pyshmem.MismatchError as error:
                    assert "has left the team" in str(error), error  # PE 0, or who was told sooner
                    print("told")
            assert (b.tolist(), y.tolist()) == before, name
            team.destroy()
        pyshmem.barrier_all()
"""


@pytest.mark.parametrize("node_size", ["0", "2"])
@pytest.mark.parametrize("check", ["0", "1"])
def test_who_destroys_a_team_arrives_in_no_collective_of_it(
    node_size: str, check: str, run_pes: Callable
) -> None:
    settings = {"PYSHMEM_NODE_SIZE": node_size, "PYSHMEM_CHECK": check, "PYSHMEM_TIMEOUT": "30"}
    n = 4 if node_size == "2" else 3
    done = run_pes(n, PROGRAM.format(calls=CALLS), env=settings, check=True)
    assert "no error" not in done.stdout
    assert done.stdout.count("told") == 2 * len(CALLS) * (n - 1)


def test_in_a_team_of_many_those_hear_of_it_that_do_not_hear_the_one(run_pes: Callable) -> None:
    calls = {name: CALLS[name] for name in ("sync", "reduce", "request")}
    program = PROGRAM.format(calls=calls)
    done = run_pes(11, program, env={"PYSHMEM_TIMEOUT": "60"}, timeout=120, check=True)
    assert "no error" not in done.stdout
    assert done.stdout.count("told") == 2 * len(calls) * 10


def test_requests_that_all_have_begun_are_complete_before_a_member_leaves(
    run_pes: Callable,
) -> None:
    program = """
import numpy as np, pyshmem
with pyshmem.init(heap_size="1M") as job:
    n = job.n_pes
    a, b = pyshmem.ones(4, dtype=np.int64), pyshmem.zeros(4, dtype=np.int64)
    team = pyshmem.TEAM_WORLD.split_strided(0, 1, n)
    request = pyshmem.sum_reduce_nb(b, a, team=team)
    if job.my_pe:
        late = pyshmem.sync_nb(team)  # PE 0 does not come to this one
        try:
            late.wait()
        except pyshmem.MismatchError as error:
            print("told")
    team.destroy()
    request.wait()
    assert b.tolist() == [n] * 4
"""
    assert run_pes(3, program, check=True).stdout.count("told") == 2


def test_who_finalizes_leaves_all_teams(run_pes: Callable) -> None:
    program = """
import pyshmem
with pyshmem.init(heap_size="1M") as job:
    made = pyshmem.TEAM_WORLD.split_strided(0, 1, job.n_pes)
    pyshmem.barrier_all()
    if job.my_pe:
        for team in pyshmem.TEAM_NODE, pyshmem.TEAM_SHARED, made:
            try:
                team.sync()
            except pyshmem.MismatchError as error:
                assert "PE 0 has left the team" in str(error)
                print("told")
        made.destroy()
    else:
        print("finalizes")
"""
    done = run_pes(3, program, env={"PYSHMEM_TIMEOUT": "30"}, check=True)
    assert done.stdout.count("told") == 6


def test_who_has_begun_to_destroy_a_team_can_only_go_on(run_pes: Callable) -> None:
    program = """
import signal, pyshmem
class Stop(Exception): pass
def stop(*_): raise Stop
signal.signal(signal.SIGALRM, stop)
with pyshmem.init(heap_size="1M") as job:
    team = pyshmem.TEAM_WORLD.split_strided(0, 1, job.n_pes)
    if job.my_pe == 0:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        try:
            team.destroy()
        except Stop:
            print("stopped")
        try:
            team.sync()
        except pyshmem.ShmemError as error:
            assert "call destroy again" in str(error), error
            print("told")
    pyshmem.barrier_all()
    team.destroy()
    for turn in range(3):  # its flags are down for the next team in the slot
        after = pyshmem.TEAM_WORLD.split_strided(0, 1, job.n_pes)
        after.sync()
        after.destroy()
"""
    done = run_pes(3, program, env={"PYSHMEM_TIMEOUT": "30"}, check=True)
    assert done.stdout.split() == ["stopped", "told"]
