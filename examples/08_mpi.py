# SPDX-License-Identifier: BSD-3-Clause
"""MPI and SHMEM in one program: MPI starts the processes and sums, SHMEM moves the data one-sided.

You learn: init(comm=...), a team from a communicator and back. Needs mpi4py.
Run: mpirun -n 2 python examples/08_mpi.py       (or: oshrun -n 2 python examples/08_mpi.py)
Output: 2 processes, row 0 of [0], row total 1: ok
"""

import numpy as np
from mpi4py import MPI

import pyshmem
from pyshmem.interop import mpi

world = MPI.COMM_WORLD

with pyshmem.init(comm=world) as job:
    # Processes in two rows: the communicator of the own row, and the same PEs as a team.
    half = -(-world.size // 2)
    row = world.Split(color=world.rank // half, key=world.rank)
    team = mpi.team_from_comm(row)
    assert team is not None  # every process is in a row

    # One-sided to the right-hand neighbour of the row, without its doing anything.
    box = pyshmem.zeros(1, dtype=np.int64)
    right = team.translate_pe((row.rank + 1) % row.size, pyshmem.TEAM_WORLD)
    pyshmem.p(box, job.my_pe + 1, right)
    team.sync()
    pyshmem.barrier_all()

    # The same numbers summed by both libraries, over the row and over a communicator of the team.
    total = pyshmem.zeros(1, dtype=np.int64)
    pyshmem.sum_reduce(total, box, team=team)
    again = mpi.comm_from_team(team)
    assert total[0] == row.allreduce(int(box[0])) == again.allreduce(int(box[0]))
    assert total[0] == sum(pe + 1 for pe in team.pes())

    if job.my_pe == 0:
        row_text = f"row 0 of {team.pes()}, row total {total[0]}"
        print(f"{job.n_pes} processes, {row_text}: ok", flush=True)
    again.Free()
    row.Free()
