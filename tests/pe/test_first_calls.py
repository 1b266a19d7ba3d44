# SPDX-License-Identifier: BSD-3-Clause
"""The first collectives of each team are compared between its PEs, without checking mode."""

from __future__ import annotations

from collections.abc import Callable

import pytest

#: What PE 0 calls, what the others do, and what the message names of both.
DIFFERENT = {
    "call": ("broadcast(b, a, root=0)", "sum_reduce(b, a)", "broadcast", "sum_reduce"),
    "dtype": ("sum_reduce(g, f)", "sum_reduce(b, a)", "double", "int64"),
    "count": ("sum_reduce(b[:8], a[:8])", "sum_reduce(b[:4], a[:4])", "64", "32"),
    "operation": ("max_reduce(b, a)", "sum_reduce(b, a)", "max_reduce", "sum_reduce"),
    "root": ("broadcast(b, a, root=0)", "broadcast(b, a, root=1)", "root", "0"),
    "fcollect": ("fcollect(b, a[:4])", "fcollect(b, a[:5])", "32", "40"),
    "alltoall": ("alltoall(b[:8], a[:8])", "sum_reduce(b, a)", "alltoall", "sum_reduce"),
    "scan": ("sum_inscan(b, a)", "sum_exscan(b, a)", "sum_inscan", "sum_exscan"),
    "request": ("max_reduce_nb(b, a)", "sum_reduce_nb(b, a)", "max_reduce_nb", "sum_reduce_nb"),
}

PROGRAM = """
import numpy as np, pyshmem
DIFFERENT = {different!r}
with pyshmem.init(heap_size="1M") as job:
    me, n = job.my_pe, job.n_pes
    a, b = (pyshmem.ones(64, dtype=np.int64) for _ in range(2))
    f, g = (pyshmem.ones(64) for _ in range(2))
    for made in pyshmem.TEAM_WORLD, pyshmem.TEAM_WORLD.split_strided(0, 1, n):
        team = made
        for name, (mine, theirs, *said) in DIFFERENT.items():
            try:
                begun = eval("pyshmem." + (theirs if me else mine)[:-1] + ", team=team)")
                if begun:
                    begun.wait()
                print("no error:", name)
            except pyshmem.MismatchError as error:
                assert all(part in str(error) for part in said), (name, error)
                print("told")
        try:
            pyshmem.broadcast(b, a, root=77 if me == 0 else 0, team=team)
        except ValueError as error:
            assert me == 0
        except pyshmem.MismatchError as error:
            assert "PE 0 refused" in str(error)
        pyshmem.sum_reduce(b, a, team=team)
        assert (b == n).all()
"""


@pytest.mark.parametrize("node_size", ["0", "1"])
def test_different_calls_are_told_to_all(node_size: str, run_pes: Callable) -> None:
    program = PROGRAM.format(different=DIFFERENT)
    settings = {"PYSHMEM_TIMEOUT": "30", "PYSHMEM_NODE_SIZE": node_size}
    done = run_pes(2, program, env=settings, check=True)
    assert "no error" not in done.stdout
    assert done.stdout.count("told") == 2 * 2 * len(DIFFERENT)


CROSSED = """
import pyshmem
with pyshmem.init(heap_size="1M") as job:
    a, b = pyshmem.ones(4), pyshmem.zeros(4)
    calls = [lambda: pyshmem.broadcast(b, a, 0), pyshmem.{plain}]
    try:
        for call in calls[:: -1 if job.my_pe else 1]:
            call()
        print("no error")
    except pyshmem.MismatchError as error:
        print(error)
    pyshmem.barrier_all()
"""


@pytest.mark.parametrize(
    ("plain", "called"),
    [("barrier_all", "barrier_all"), ("sync_all", "team_sync"), ("drain", "drain")],
)
@pytest.mark.parametrize("n_pes", [2, 11])  # few PEs, and many
def test_both_sides_hear_what_the_other_called(
    plain: str, called: str, n_pes: int, run_pes: Callable
) -> None:
    done = run_pes(n_pes, CROSSED.format(plain=plain), env={"PYSHMEM_TIMEOUT": "30"}, check=True)
    for pe in range(n_pes):
        other, names = (0, (called, "broadcast")) if pe else (1, ("broadcast", called))
        told = f"PE {other} called {names[1]} while PE {pe} called {names[0]}; all PEs must "
        assert told in done.stdout
    assert "no error" not in done.stdout


#: Behind the first 32: by cells, by the stage, and straight from the sources. What PE 0 calls, what the
#: others do, and what the message names of both.
LATE = {
    "dtype": (
        "sum_reduce(g[:8], f[:8])",
        "sum_reduce(b[:8], a[:8])",
        "8 double (float64)",
        "8 int64",
    ),
    "count": ("sum_reduce(b[:8], a[:8])", "sum_reduce(b[:4], a[:4])", "of 8 int64", "of 4 int64"),
    "operation": (
        "max_reduce(b[:{n}], a[:{n}])",
        "sum_reduce(b[:{n}], a[:{n}])",
        "max_reduce of {n}",
        "sum_reduce of {n}",
    ),
    "scatter": (
        "max_reduce_scatter(b[:8], a[:8 * n])",
        "sum_reduce_scatter(b[:8], a[:8 * n])",
        "max_reduce_scatter of",
        "sum_reduce_scatter of",
    ),
    "scan": (
        "sum_inscan(b[:{n}], a[:{n}])",
        "sum_exscan(b[:{n}], a[:{n}])",
        "sum_inscan of {n}",
        "sum_exscan of {n}",
    ),
    "fcollect": (
        "fcollect(b[: 2 * {n}], a[:{n}])",
        "alltoall(b[: 2 * {n}], a[: 2 * {n}])",
        "fcollect of",
        "alltoall of",
    ),
}

LATER = """
import numpy as np, pyshmem
DIFFERENT = {different!r}
with pyshmem.init(heap_size="8M") as job:
    me, n = job.my_pe, job.n_pes
    a, b = (pyshmem.ones(1 << 17, dtype=np.int64) for _ in range(2))
    f, g = (pyshmem.ones(1 << 17) for _ in range(2))
    for team in pyshmem.TEAM_WORLD, pyshmem.TEAM_WORLD.split_strided(0, 1, n):
        for call in range(33):
            pyshmem.sum_reduce(b[:8], a[:8], team=team)
        for size in 8, 1 << 15, 1 << 16:  # between these nothing is compared
            for name, given in DIFFERENT.items():
                mine, theirs, *said = (part.replace("{{n}}", str(size)) for part in given)
                try:
                    eval("pyshmem." + (theirs if me else mine)[:-1] + ", team=team)")
                    print("no error:", name, size)
                except pyshmem.MismatchError as error:
                    assert all(part in str(error) for part in said), (name, error)
                    print("told")
                pyshmem.sum_reduce(b[:8], a[:8], team=team)
                assert (b[:8] == n).all()
            if size > 8:  # where a root does not wait for the others, see below
                try:
                    pyshmem.broadcast(b[:size], a[:size], root=me, team=team)
                    print("no error: root", size)
                except pyshmem.MismatchError as error:
                    assert "from root 0 on PE" in str(error) and "from root 1 on PE" in str(error), error
                    print("told")
"""


def test_later_calls_that_differ_are_told_to_all(run_pes: Callable) -> None:
    done = run_pes(2, LATER.format(different=LATE), env={"PYSHMEM_TIMEOUT": "30"}, check=True)
    assert "no error" not in done.stdout
    assert done.stdout.count("told") == 2 * 2 * (3 * len(LATE) + 2)


ROOTS = """
import pyshmem
job = pyshmem.init(heap_size="1M")
a, b = pyshmem.full(8, 1.0 + job.my_pe), pyshmem.zeros(8)
for call in range(64):
    pyshmem.sum_reduce(b, a)
pyshmem.broadcast(b, a, root=min(job.my_pe, 1))
pyshmem.barrier_all()
try:
    {behind}
    print("no error")
except pyshmem.MismatchError as error:
    # Who waited for a root's data may have been told first, and left.
    assert "an earlier broadcast had another root on PE" in str(error) or "has left" in str(error), error
    print("told", *["earlier"] * ("an earlier" in str(error)))
{then}
"""


@pytest.mark.parametrize("n_pes", [2, 3])
@pytest.mark.parametrize(
    ("behind", "then"),
    [
        (
            "pyshmem.sum_reduce(b, a)",
            "pyshmem.sum_reduce(b, a); assert (b == sum(range(1, job.n_pes + 1))).all()",
        ),
        ("[pyshmem.broadcast(b, a, root=0) for call in range(20)]", ""),
        ("pyshmem.finalize()", ""),
    ],
)
def test_other_roots_are_told_where_all_meet_next(
    behind: str, then: str, n_pes: int, run_pes: Callable
) -> None:
    program = ROOTS.format(behind=behind, then=then)
    done = run_pes(n_pes, program, env={"PYSHMEM_TIMEOUT": "30"}, check="broadcast" not in behind)
    assert done.stdout.count("told") == n_pes
    assert "told earlier" in done.stdout


COUNTED = """
import numpy as np, pyshmem
with pyshmem.init(heap_size="1M") as job:
    a, b = (pyshmem.ones(32, dtype=np.int64) for _ in range(2))
    team = pyshmem.TEAM_WORLD.split_strided(0, 1, job.n_pes)
    pyshmem.sum_reduce(b, a)
    for call in range({calls}):
        pyshmem.sum_reduce(b, a, team=team)
    try:  # where it is not compared first it is told by the words beside the data, which have its size
        (pyshmem.max_reduce if job.my_pe else pyshmem.sum_reduce)(b, a, team=team)
        print("no error")
    except pyshmem.MismatchError as error:
        print("told later" if "_reduce of 32 int64" in str(error) else "told")
    pyshmem.sum_reduce(b, a, team=team)
    assert (b == job.n_pes).all()
"""


@pytest.mark.parametrize(
    ("calls", "settings", "says"),
    [
        (31, {}, "told"),
        (32, {}, "told later"),
        (3, {"PYSHMEM_CHECK_FIRST": "4"}, "told"),
        (4, {"PYSHMEM_CHECK_FIRST": "4"}, "told later"),
        (0, {"PYSHMEM_CHECK_FIRST": "0"}, "told later"),
        (40, {"PYSHMEM_CHECK": "1"}, "told"),
    ],
)
def test_so_many_calls_of_a_team_are_compared(
    calls: int, settings: dict[str, str], says: str, run_pes: Callable
) -> None:
    done = run_pes(2, COUNTED.format(calls=calls), env=settings, check=True)
    assert done.stdout.splitlines() == [says, says]


def test_the_number_is_the_same_on_all_pes(run_pes: Callable) -> None:
    program = """
import os
os.environ["PYSHMEM_CHECK_FIRST"] = os.environ["PYSHMEM_PE"]
import pyshmem
pyshmem.init(heap_size="1M")
"""
    done = run_pes(2, program)
    assert done.returncode
    assert "PYSHMEM_CHECK_FIRST is 1 on PE 1, 0 on PE 0" in done.stderr


def test_arrays_of_few_bytes_may_be_others(run_pes: Callable) -> None:
    """As the page of collectives says; checking mode alone compares where they are."""
    program = """
import numpy as np, pyshmem
with pyshmem.init(heap_size="1M") as job:
    a, b, c = (pyshmem.ones(4, dtype=np.int64) for _ in range(3))
    pyshmem.sum_reduce(c if job.my_pe else b, a)
    assert (c if job.my_pe else b).tolist() == [job.n_pes] * 4
"""
    run_pes(2, program, check=True)
