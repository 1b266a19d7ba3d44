# SPDX-License-Identifier: BSD-3-Clause
"""Teams, launches and values that the tests of collectives share."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
import pytest
from numba import cuda

import pyshmem
from pyshmem import device as shmem

#: Blocks and threads of each scope; a warp more than full, and blocks that are no whole warps.
LAUNCH = {"": (1, 1), "_warp": (1, 32), "_work_group": (1, 40), "_grid": (3, 16)}

#: Members by world number, in the team's order.
KINDS = {
    "world": lambda n: list(range(n)),
    "odd": lambda n: list(range(1, n, 2)) or [0],
    "reversed": lambda n: list(range(n))[::-1],
    "list": lambda n: [n - 1, *range(n // 2)] if n > 1 else [0],
}


@contextmanager
def team_of(kind, n_pes):
    """``(slot, members)``: what kernels know the team by, None on PEs outside, and its PEs."""
    members = KINDS[kind](n_pes)
    if kind == "world":
        yield np.int32(shmem.TEAM_WORLD), members
        return
    if kind == "reversed":
        team = pyshmem.TEAM_WORLD.split_strided(n_pes - 1, -1 if n_pes > 1 else 0, n_pes)
    elif kind == "odd" and n_pes > 2:
        team = pyshmem.TEAM_WORLD.split_strided(1, 2, len(members))
    else:
        team = pyshmem.Team.from_pes(members)
    try:
        yield None if team is None else shmem.as_argument(team), members
    finally:
        cuda.synchronize()
        pyshmem.barrier_all()
        if team is not None:
            team.destroy()


def by_scope(make, name):
    """``make(routine)`` for the routine of each scope."""
    return {scope: make(getattr(shmem, name + scope)) for scope in LAUNCH}


def values_of(pe, n, dtype, salt=0):
    """Small numbers, different on every PE and in every element; negative ones where there are such."""
    values = (np.arange(n) * 7 + 13 * pe + 5 * salt + 1) % 23
    if np.dtype(dtype).kind not in "ub":
        values = values - 11
    if np.dtype(dtype).kind == "c":
        values = values + 1j * ((np.arange(n) + pe) % 5 - 2)
    return values % 2 == 0 if dtype == "bool" else values.astype(dtype)


def fault_of(launch):
    """The message that the host gets: from the launch in the simulator, from a later call on a GPU."""

    def launch_and_ask():
        launch()
        cuda.synchronize()
        pyshmem.quiet()

    with pytest.raises(pyshmem.KernelFault) as caught:
        launch_and_ask()
    return str(caught.value)
