# SPDX-License-Identifier: BSD-3-Clause
"""Reductions of kernels whose result is scattered: the bits of the reduction, a block a member."""

from __future__ import annotations

import numpy as np
import pytest
from numba import cuda
from team_kinds import KINDS, LAUNCH, by_scope, fault_of, team_of
from test_collectives_reduce import OPS, reduced, same, uneven

import pyshmem
from pyshmem import cutover
from pyshmem import device as shmem

#: One dtype for each of the operations; the arithmetic itself is that of reductions.
DTYPES = {"and": "uint8", "or": "int64", "xor": "uint32", "max": "float64", "min": "int16"}
DTYPES |= {"sum": "float16", "prod": "complex64"}


def kernel_of(routine):
    @cuda.jit
    def kernel(team, dest, source, nreduce):
        routine(team, dest, source, nreduce)

    return kernel


SCATTER = {op: by_scope(kernel_of, f"{op}_reduce_scatter") for op in OPS}


def block_of(op, members, me, n, dtype):
    """What member ``me`` gets: a block of what is reduced."""
    total = reduced(op, [uneven(pe, n * len(members), dtype) for pe in members])
    return total[me * n : (me + 1) * n]


@pytest.mark.parametrize("ll", ["0", "never"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scope", LAUNCH)
def test_teams_sizes_and_ways(job, place, show, scope, kind, ll):
    """Of 20,000 elements the blocks are loaded from the sources."""
    sizes = (
        (0, 1, 4, 63, 700, 20000) if scope == "_work_group" and kind == "reversed" else (0, 5, 64)
    )
    with cutover.forced("ll", ll), team_of(kind, job.n_pes) as (team, members):
        for n in sizes:
            source = place(uneven(job.my_pe, n * len(members), "float32"))
            dest = place(np.ones(n + 1, np.float32))
            if team is not None:
                SCATTER["sum"][scope][LAUNCH[scope]](team, dest, source, n)
            got = show(dest)
            if team is not None:
                wanted = block_of("sum", members, members.index(job.my_pe), n, "float32")
                assert same(got[:n], wanted, True)
            assert got[n] == 1


@pytest.mark.parametrize("op", OPS)
def test_every_operation(job, place, show, op):
    source, dest = (place(uneven(job.my_pe, n, DTYPES[op])) for n in (33 * job.n_pes, 33))
    SCATTER[op]["_work_group"][1, 40](shmem.TEAM_WORLD, dest, source, 33)
    wanted = block_of(op, range(job.n_pes), job.my_pe, 33, DTYPES[op])
    assert same(show(dest), wanted, op != "prod")


@pytest.mark.parametrize("n", [40, 24000])
@pytest.mark.parametrize("ll", ["0", "never"])
def test_in_place(job, place, show, n, ll):
    """The caller's own block of source is dest."""
    with cutover.forced("ll", ll):
        source = place(uneven(job.my_pe, n * job.n_pes, "float32"))
        own = slice(job.my_pe * n, (job.my_pe + 1) * n)
        SCATTER["sum"]["_work_group"][1, 40](shmem.TEAM_WORLD, source[own], source, n)
        wanted = block_of("sum", range(job.n_pes), job.my_pe, n, "float32")
        assert same(show(source)[own], wanted, True)


def test_a_source_of_too_few_blocks(job, place):
    source, dest = place(np.zeros(4 * job.n_pes - 1)), place(np.zeros(4))
    message = fault_of(lambda: SCATTER["sum"][""][1, 1](shmem.TEAM_WORLD, dest, source, 4))
    assert "reduce_scatter" in message
    assert f"nelems {4 * job.n_pes}" in message
    assert (pyshmem.to_numpy(dest) == 0).all()
