# SPDX-License-Identifier: BSD-3-Clause
"""Reductions whose result is scattered: the bits of the reduction, a block a PE; blocking and not."""

from __future__ import annotations

import numpy as np
import pytest
from reference import pattern, same

import pyshmem
from pyshmem import TEAM_WORLD, Team
from pyshmem._core.type_table import REDUCE_OPS

DTYPES = {"and": "uint8", "or": "int64", "xor": "uint32", "max": "float64", "min": "int16"}
DTYPES |= {"sum": "float16", "prod": "complex64"}


def call(op, form, dest, source, **options):
    """One of the two forms, complete."""
    request = getattr(pyshmem, f"{op}_reduce_scatter{form}")(dest, source, **options)
    if form:
        request.wait()


@pytest.mark.parametrize("form", ["", "_nb"])
@pytest.mark.parametrize("op", REDUCE_OPS)
def test_blocks_of_the_reduction(job, make, heap, op, form):
    """By the stage, by slices, and of nothing."""
    for n in (0, 1, 33, 9000):
        source = make(pattern(n * job.n_pes, DTYPES[op], job.my_pe), heap)
        whole, dest = (
            make(pattern(n * job.n_pes, DTYPES[op], 50), heap),
            make(pattern(n + 1, DTYPES[op], 60), heap),
        )
        getattr(pyshmem, f"{op}_reduce")(whole, source)
        call(op, form, dest, source, nelems=n)
        got, own = pyshmem.to_numpy(dest), slice(job.my_pe * n, (job.my_pe + 1) * n)
        assert same(got[:n], pyshmem.to_numpy(whole)[own])
        assert same(got[n:], pattern(n + 1, DTYPES[op], 60)[n:])


@pytest.mark.parametrize("form", ["", "_nb"])
def test_teams_and_in_place(job, make, heap, form):
    """The order is the team's; dest may be the caller's block of source."""
    team = Team.from_pes(range(job.n_pes)[::-1])
    n, me = 3000, job.n_pes - 1 - job.my_pe
    values = [pattern(n * job.n_pes, "float32", pe) for pe in range(job.n_pes)]
    source = make(values[job.my_pe], heap)
    own = slice(me * n, (me + 1) * n)
    call("sum", form, source[own], source, team=team)
    total = values[-1].copy()
    for other in values[-2::-1]:
        total += other
    got = pyshmem.to_numpy(source)
    assert same(got[own], total[own])
    assert same(np.delete(got, own), np.delete(values[job.my_pe], own))
    team.destroy()


@pytest.mark.parametrize("form", ["", "_nb"])
def test_bad_input(job, make, heap, form):
    source, dest = make(np.zeros(4 * job.n_pes), heap), make(np.zeros(4), heap)
    with pytest.raises(ValueError, match="nelems is 5, but dest has 4"):
        call("sum", form, dest, source, nelems=5)
    with pytest.raises(ValueError, match=f"so source needs {4 * job.n_pes}|but source has"):
        call("sum", form, dest, source[:-1], nelems=4)
    if job.n_pes > 1:
        with pytest.raises(ValueError, match="PEs cannot share evenly"):
            call("sum", form, dest, source[1:])
    with pytest.raises(TypeError, match="dest has dtype float64, source has dtype float32"):
        call("sum", form, dest, make(np.zeros(4 * job.n_pes, np.float32), heap))
    with pytest.raises(TypeError, match="xor_reduce_scatter"):
        call("xor", form, dest, source)
    assert (pyshmem.to_numpy(dest) == 0).all()
    TEAM_WORLD.sync()
