# SPDX-License-Identifier: BSD-3-Clause
"""Programs that use MPI and pyshmem together, under mpirun."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mpi4py", reason="needs mpi4py")

START = """
import numpy as np, pyshmem
from mpi4py import MPI
from pyshmem.interop import mpi
world = MPI.COMM_WORLD
"""

BOOTSTRAP = """
with pyshmem.init(comm=world) as job:
    me, n = job.my_pe, job.n_pes
    assert (me, n) == (world.rank, world.size)
    pyshmem.init(comm=world)
    pyshmem.finalize()
    box = pyshmem.zeros(1, dtype=np.int64)
    pyshmem.p(box, me + 1, (me + 1) % n)
    pyshmem.barrier_all()
    assert world.allreduce(int(box[0])) == n * (n + 1) // 2
    print("ok", flush=True)
"""

REORDERED = """
back = world.Split(0, -world.rank)
with pyshmem.init(comm=back) as job:
    assert job.my_pe == world.size - 1 - world.rank
    box = pyshmem.zeros(job.n_pes, dtype=np.int64)
    mine = pyshmem.full(1, world.rank, dtype=np.int64)
    pyshmem.fcollect(box, mine)
    assert box.tolist() == list(range(job.n_pes))[::-1]
    print("ok", flush=True)
"""

TWO_JOBS = """
half = world.Split(world.rank % 2, world.rank)
with pyshmem.init(comm=half) as job:
    assert job.n_pes == half.size
    total = pyshmem.full(1, world.rank, dtype=np.int64)
    pyshmem.sum_reduce(total, total)
    assert total[0] == half.allreduce(world.rank)
    print("ok", flush=True)
"""

TEAMS = """
with pyshmem.init(comm=world) as job:
    half = world.Split(world.rank % 2, -world.rank)
    team = mpi.team_from_comm(half)
    assert (team.my_pe(), team.n_pes()) == (half.rank, half.size)
    assert team.pes() == half.allgather(job.my_pe)
    some = mpi.team_from_comm(half if world.rank % 2 == 0 else MPI.COMM_NULL)
    assert (some is None) == (world.rank % 2 == 1)
    again = mpi.comm_from_team(team)
    assert (again.rank, again.size) == (half.rank, half.size)
    assert MPI.Comm.Compare(again, half) == MPI.CONGRUENT
    assert (mpi.comm_from_team(some) is None) == (some is None)
    world.Barrier()
    print("ok", flush=True)
"""

MISTAKES = """
try:
    pyshmem.init(comm=3)
except TypeError as error:
    assert "comm is an int" in str(error)
with pyshmem.init(comm=world) as job:
    for comm in (MPI.COMM_SELF,) if world.size > 1 else ():
        try:
            pyshmem.init(comm=comm)
        except ValueError as error:
            assert "of 1 in comm, but PE" in str(error)
        else:
            raise SystemExit("not refused")
    print("ok", flush=True)
"""


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize(
    "program",
    [BOOTSTRAP, REORDERED, TWO_JOBS, TEAMS, MISTAKES],
    ids=["bootstrap", "reordered", "two jobs", "teams", "mistakes"],
)
def test_under_mpirun(program: str, n: int, tmp_path: Path) -> None:
    if shutil.which("mpirun") is None:
        pytest.skip("needs mpirun")
    script = tmp_path / "program.py"
    script.write_text(START + program)
    command = ["mpirun", "--oversubscribe", "-n", str(n), sys.executable, str(script)]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYSHMEM_")}
    environment |= {"PYSHMEM_DEVICE": "none", "PYSHMEM_TIMEOUT": "20"}
    environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    result = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.count("ok") == n
