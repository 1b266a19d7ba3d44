# SPDX-License-Identifier: BSD-3-Clause
"""Collectives that a handler ends in one of their waits, and that are made again, go on where they were.

PE 0 is interrupted again and again, and makes each call again until it has returned. Another PE
stands still now and then, so that it is late for meetings in the middle of calls too. All of them
then have the same results as ever.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

#: Calls, each of which is repeated, with what their results have to be. ``i`` is the number of the turn.
CALLS = {
    "zeros": ("pyshmem.zeros(64, dtype=np.int64)", "not made.any()"),
    "full": ("pyshmem.full(64, me + i, dtype=np.int64)", "(made == me + i).all()"),
    "array": ("pyshmem.array([me, i, 3])", "made.tolist() == [me, i, 3]"),
    "ones_like": ("pyshmem.ones_like(a)", "made.sum() == a.size"),
    "arange": ("pyshmem.arange(5)", "made.tolist() == [0, 1, 2, 3, 4]"),
    "realloc": ("pyshmem.realloc(grown, len(grown) + 9000)", "made[0] == me"),
    "drain": ("pyshmem.drain()", "True"),
    "barrier_all": ("pyshmem.barrier_all()", "True"),
    "split_strided": ("pyshmem.TEAM_WORLD.split_strided(0, 1, n)", "made.n_pes() == n"),
    "split_2d": ("pyshmem.TEAM_WORLD.split_2d(1)", "[t.n_pes() for t in made] == [1, n]"),
    "split": ("pyshmem.TEAM_WORLD.split(0, -me)", "made.my_pe() == n - 1 - me"),
    "from_pes": ("pyshmem.Team.from_pes(range(n))", "made.n_pes() == n"),
    "sync": ("team.sync()", "True"),
    "reduce": ("pyshmem.sum_reduce(b[:4], a[:4], team=team)", "(b[:4] == total).all()"),
    "reduce, many": ("pyshmem.sum_reduce(b, a, team=team)", "(b == total).all()"),
    "reduce, in place": (
        "pyshmem.sum_reduce(again(c, me + 1), c, team=team)", "(c == total).all()",
    ),
    "broadcast, many": ("pyshmem.broadcast(b, a, root=1, team=team)", "(b == 2).all()"),
    "fcollect, many": ("pyshmem.fcollect(wide, a, team=team)", "wide.sum() == total * len(a)"),
    "collect, many": ("pyshmem.collect(wide, a, team=team)", "wide.sum() == total * len(a)"),
    "alltoall, many": ("pyshmem.alltoall(wide2, wide3, team=team)", "(wide2[-1:] == n).all()"),
    "scan, many": ("pyshmem.sum_inscan(b, a, team=team)", "(b == (me + 1) * (me + 2) // 2).all()"),
}  # fmt: skip

PROGRAM = """
import os, signal, time, numpy as np, pyshmem
from pyshmem._core import library
class Stop(Exception): pass
control = os.dup(int(os.environ["PYSHMEM_CONTROL_FD"]))
text = library.ffi.new("char[]", 256)
def handler(*_):
    library.check(library.lib.ishmemx_control_describe(control, me, text, len(text)))
    if library.ffi.string(text).startswith(b"in "):  # in a wait
        raise Stop
signal.signal(signal.SIGALRM, handler)
calls = {calls!r}
with pyshmem.init(heap_size="64M") as job:
    me, n = job.my_pe, job.n_pes
    total = n * (n + 1) // 2
    a, b, c = (pyshmem.full(9000, me + 1, dtype=np.int64) for _ in range(3))
    wide, wide2 = (pyshmem.zeros(9000 * n, dtype=np.int64) for _ in range(2))
    wide3 = pyshmem.full(9000 * n, me + 1, dtype=np.int64)
    team = pyshmem.TEAM_WORLD.split_strided(0, 1, n)
    begun = False
    def again(array, value):
        global begun
        if not begun:  # what is reduced in place is not what it was once the call has begun
            array[:] = value
        begun = True
        return array
    if me == n - 1:
        pid = os.getpid()
        helper = os.fork()
        if helper == 0:
            k = 0
            while os.getppid() == pid:
                k += 1
                time.sleep(0.0005 + 0.0007 * (k % 9))
                os.kill(pid, signal.SIGSTOP)
                time.sleep(0.02)
                os.kill(pid, signal.SIGCONT)
            os._exit(0)
    stopped = 0
    seen = pyshmem.zeros(1, dtype=np.int64)
    for name, (call, holds) in calls.items():
        for i in range({turns}):
            pyshmem.zeros(8)  # and drops it, so that calls that free have more meetings
            grown = pyshmem.full(10, me, dtype=np.int64) if "grown" in call else None
            begun = False
            # It is late for the barrier until PE 0 has left one: so one call at least is made again.
            while name == "barrier_all" and me == n - 1 and not seen[0]:
                time.sleep(0.005)
            while True:
                try:
                    if me == 0:
                        signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
                    made = eval(call)
                    signal.setitimer(signal.ITIMER_REAL, 0)
                    break
                except Stop:
                    stopped += 1
                    signal.setitimer(signal.ITIMER_REAL, 0)
                    if name == "barrier_all":
                        pyshmem.p(seen, 1, n - 1)
                        pyshmem.quiet()
            assert eval(holds), (name, i, made)
            for team_made in made if isinstance(made, tuple) else (made,):
                if isinstance(team_made, pyshmem.Team):
                    team_made.destroy()
            del made
    if me == n - 1:
        os.kill(helper, signal.SIGKILL)
        os.waitpid(helper, 0)
    pyshmem.barrier_all()
    print("done", stopped)
"""


@pytest.mark.parametrize(
    ("n", "settings"),
    [
        (2, {}),
        (3, {"PYSHMEM_CHECK": "1"}),
        (4, {"PYSHMEM_NODE_SIZE": "2"}),
        (2, {"PYSHMEM_CHECK_FIRST": "0"}),
    ],
)
def test_a_call_that_is_made_again_goes_on_where_it_was(
    n: int, settings: dict[str, str], run_pes: Callable
) -> None:
    program = PROGRAM.format(calls=CALLS, turns=3)
    done = run_pes(n, program, env={"PYSHMEM_TIMEOUT": "30"} | settings, timeout=120, check=True)
    assert done.stdout.count("done") == n
    assert max(int(line.split()[1]) for line in done.stdout.splitlines() if "done" in line) > 0


def test_until_then_the_team_is_kept_for_the_call(run_pes: Callable) -> None:
    program = """
import signal, time, numpy as np, pyshmem
class Stop(Exception): pass
def stop(*_): raise Stop
signal.signal(signal.SIGALRM, stop)
with pyshmem.init(heap_size="1M") as job:
    a, b = pyshmem.ones(4, dtype=np.int64), pyshmem.zeros(4, dtype=np.int64)
    team = pyshmem.TEAM_WORLD.split_strided(0, 1, job.n_pes)
    if job.my_pe == 0:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        try:
            pyshmem.sum_reduce(b, a, team=team)
        except Stop:
            print("stopped")
        for other in team.sync, lambda: pyshmem.sum_reduce(b[:2], a[:2], team=team):
            try:
                other()
            except pyshmem.ShmemError as error:
                assert "a call of sum_reduce ended" in str(error), error
                print("told")
        pyshmem.barrier_all()  # of another team
    else:
        pyshmem.barrier_all()
    pyshmem.sum_reduce(b, a, team=team)
    assert b.tolist() == [job.n_pes] * 4
    team.sync()
    team.destroy()
"""
    done = run_pes(3, program, env={"PYSHMEM_TIMEOUT": "30"}, check=True)
    assert done.stdout.split() == ["stopped", "told", "told"]


def test_a_call_that_took_too_long_goes_on_too(run_pes: Callable) -> None:
    program = """
import time, numpy as np, pyshmem
with pyshmem.init(heap_size="1M") as job:
    a, b = pyshmem.ones(9000, dtype=np.int64), pyshmem.zeros(9000, dtype=np.int64)
    team = pyshmem.TEAM_WORLD.split_strided(0, 1, job.n_pes)
    if job.my_pe == 1:
        for _ in range(150):
            time.sleep(0.01)
    late = 0
    while True:
        try:
            pyshmem.sum_reduce(b, a, team=team)
            break
        except pyshmem.ShmemTimeout:
            late += 1
    assert (b == job.n_pes).all()
    if job.my_pe == 0:
        print("late" if late else "in time")
"""
    done = run_pes(2, program, env={"PYSHMEM_TIMEOUT": "0.5"}, check=True)
    assert done.stdout.split() == ["late"]
