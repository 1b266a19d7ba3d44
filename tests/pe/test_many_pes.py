# SPDX-License-Identifier: BSD-3-Clause
"""More PEs than the small paths of teams and barriers are for."""

from __future__ import annotations

import resource
from collections.abc import Callable

import pytest

pytestmark = pytest.mark.serial

PROGRAM = """
import numpy as np
import pyshmem
from pyshmem import TEAM_WORLD, Team

pyshmem.init(heap_size="8M")
me, n = pyshmem.my_pe(), pyshmem.n_pes()
source, dest = pyshmem.zeros(3000, int), pyshmem.zeros(3000 * n, int)


def talk(team):
    # Small and large, so through the stage and by slices.
    mine, pes = team.my_pe(), team.pes()
    for nelems in (2, 3000):
        for root in (0, len(pes) - 1):
            source[:] = 100 * me + root
            pyshmem.fcollect(dest, source, nelems=nelems, team=team)
            blocks = dest[: nelems * len(pes)].reshape(len(pes), nelems)
            assert (blocks == 100 * np.array(pes)[:, None] + root).all()
            team.sync()
            pyshmem.broadcast(dest, source, root, nelems=nelems, team=team)
            assert (dest[:nelems] == 100 * pes[root] + root).all()
            pyshmem.sum_reduce(source, source, nelems=nelems, team=team)
            assert (source[:nelems] == sum(100 * pe + root for pe in pes)).all()
            source[0] = mine + 1
            pyshmem.sum_exscan(dest, source, nelems=1, team=team)
            assert dest[0] == mine * (mine + 1) // 2
            team.sync()


backwards = TEAM_WORLD.split_strided(n - 1, -1, n)
shuffled = Team.from_pes([(5 * i + 3) % n for i in range(n)])
some = TEAM_WORLD.split_strided(0, 1, n - 2)  # more than 8 too
rows = TEAM_WORLD.split_2d(n - 3)[0]
for team in (TEAM_WORLD, backwards, shuffled, some, rows):
    if team is not None:
        talk(team)
    pyshmem.barrier_all()

# Each round one PE comes late to the sync, and stores just before it.
flags = pyshmem.zeros(1, int)
for late in range(n):
    if me == late:
        flags[0] = 1 + late
    shuffled.sync()
    assert pyshmem.g(flags, late) == 1 + late
    shuffled.sync()

source[:n] = 1000 * me + np.arange(n)
pyshmem.alltoall(dest, source, nelems=1, team=backwards)
assert (dest[:n] == 1000 * np.array(backwards.pes()) + backwards.my_pe()).all()
print("ok", flush=True)
pyshmem.finalize()
"""


@pytest.mark.parametrize("check", ["0", "1"])
@pytest.mark.parametrize("n_pes", [9, 12])
def test_teams_of_more_than_eight(n_pes: int, check: str, run_pes: Callable) -> None:
    done = run_pes(n_pes, PROGRAM, timeout=100, env={"PYSHMEM_CHECK": check}, check=True)
    assert done.stdout.count("ok") == n_pes


MISMATCH = """
import pyshmem
pyshmem.init(heap_size="4M")
me, n = pyshmem.my_pe(), pyshmem.n_pes()
odd, array = me == n - 1, pyshmem.ones(4, int)
meetings = (
    lambda: pyshmem.sum_reduce(array, array),
    lambda: pyshmem.broadcast(array, array, 0),
    lambda: pyshmem.TEAM_WORLD.sync(),
)
allocations = (lambda: pyshmem.zeros(8), lambda: pyshmem.free(array))
for meeting in meetings:
    for allocation in allocations:
        try:
            (allocation if odd else meeting)()
        except pyshmem.MismatchError as error:
            text = str(error)
            assert text.startswith("PE ") and text.count(" called ") == 2, text
        else:
            raise SystemExit("nothing was told")
        pyshmem.barrier_all()
pyshmem.sum_reduce(array, array)
assert array.tolist() == [n] * 4  # nothing was lost, and nothing written
print("ok", flush=True)
"""


@pytest.mark.parametrize("n_pes", [2, 3])
def test_a_collective_against_an_allocation_is_told_to_all(n_pes: int, run_pes: Callable) -> None:
    done = run_pes(n_pes, MISMATCH, timeout=30, env={"PYSHMEM_CHECK": "1"}, check=True)
    assert done.stdout.count("ok") == n_pes


MANY = """
import os
import numpy as np
import pyshmem

with pyshmem.init(heap_size="2M") as job:
    me, n = job.my_pe, job.n_pes
    box, total = pyshmem.zeros(1, np.int64), pyshmem.full(1, me + 1, dtype=np.int64)
    pyshmem.put(box, np.full(1, me), (me + 1) % n)
    pyshmem.barrier_all()
    assert box[0] == (me - 1) % n
    pyshmem.sum_reduce(total, total)
    assert total[0] == n * (n + 1) // 2
pages = int(open("/proc/self/statm").read().split()[1])
print("ok", pages * os.sysconf("SC_PAGESIZE"), flush=True)
"""


def resident(output: str) -> int:
    """Bytes of the largest of the PEs that printed them."""
    return max(int(line.split()[1]) for line in output.splitlines() if line.startswith("ok "))


@pytest.mark.long
@pytest.mark.parametrize("n_pes", [16, 64, 128])
def test_start_and_memory_are_those_of_the_model(n_pes: int, run_pes: Callable) -> None:
    """docs/scaling.md, and room: 120 seconds of the CPU for 128 PEs, 60 on two cores alone."""
    alone = resident(run_pes(1, MANY, check=True).stdout)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = run_pes(n_pes, MANY, timeout=280, env={"PYSHMEM_INIT_TIMEOUT": "240"}, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.stdout.count("ok") == n_pes
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert cpu < 1.73 * (1.6 + 0.53 * n_pes)
    assert resident(done.stdout) - alone < 2_000_000 + 1.5 * 20_000 * n_pes
