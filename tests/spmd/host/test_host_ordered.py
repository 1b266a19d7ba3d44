# SPDX-License-Identifier: BSD-3-Clause
"""Reductions are ordered: the same bits on every PE, for every size, heap and time of arrival."""

from __future__ import annotations

import time

import numpy as np
import pytest
from reference import dtype_of, reduce, same

import pyshmem
from pyshmem import TEAM_WORLD, Team

FLOATS = ["float32", "float64", "longdouble", "complex64", "complex128"]
NARROW = ["float16", "bfloat16"]
STAGE = 8192  # bytes up to which every PE combines all; above, each PE its slice


def cancelling(dtype, pe):
    """A value whose sum over PEs depends on the order from 3 PEs on."""
    kind = dtype_of(dtype)
    big = 8 / np.finfo(kind).eps
    value = [1, big, -big, 3][pe % 4]
    return kind.type(value * (1 + 1j) if kind.kind == "c" else value)


def lengths(dtype):
    size = dtype_of(dtype).itemsize
    return [1, 3, STAGE // size - 1, STAGE // size, STAGE // size + 1, 5001, 70_001]


def summed(array, team=TEAM_WORLD, dest=None):
    """The sum, as NumPy's."""
    dest = array if dest is None else dest
    pyshmem.sum_reduce(dest, array, team=team)
    return pyshmem.to_numpy(dest)


@pytest.mark.parametrize("dtype", FLOATS)
def test_the_sum_of_an_element_does_not_depend_on_the_size_of_the_call(job, heap, make, dtype):
    wanted = reduce("sum", [np.full(1, cancelling(dtype, pe)) for pe in range(job.n_pes)])
    for n in lengths(dtype):
        values = np.full(n, cancelling(dtype, job.my_pe))
        assert same(summed(make(values, heap)), np.repeat(wanted, n)), n
        dest = make(np.zeros(n, values.dtype), heap)
        assert same(summed(make(values, heap), dest=dest), np.repeat(wanted, n)), n


@pytest.mark.parametrize("dtype", FLOATS)
def test_the_order_is_the_teams(job, make, dtype):
    values = [np.full(3, cancelling(dtype, pe)) for pe in range(job.n_pes)]
    backwards = TEAM_WORLD.split_strided(job.n_pes - 1, -1 if job.n_pes > 1 else 0, job.n_pes)
    turned = Team.from_pes([*range(1, job.n_pes), 0])
    seen = [summed(make(values[job.my_pe]))]
    for team in (backwards, turned):
        seen.append(summed(make(values[job.my_pe]), team))
        assert same(seen[-1], reduce("sum", [values[pe] for pe in team.pes()]))
        team.destroy()
    if job.n_pes in (3, 4):  # these values do tell the orders apart
        assert not same(seen[0], seen[1])


@pytest.mark.parametrize("op", ["sum", "prod"])
@pytest.mark.parametrize("dtype", [*FLOATS[:2], *NARROW])
def test_both_heaps_give_the_same_bits(job, make, same_everywhere, dtype, op):
    if job.device == "none":
        pytest.skip("the job has no device heap")
    routine = getattr(pyshmem, f"{op}_reduce")
    for n in (5, 3001, 40_000):
        generator = np.random.default_rng([n, job.my_pe])
        values = (generator.normal(size=n) * 10.0 ** generator.integers(-2, 3, n)).astype(
            dtype_of(dtype)
        )
        results = []
        for of_dest, of_source in (("host", "host"), ("device", "device"), ("host", "device")):
            dest = make(np.zeros(n, values.dtype), of_dest)
            routine(dest, make(values, of_source))
            results.append(pyshmem.to_numpy(dest).tobytes())
        assert len(set(results)) == 1
        same_everywhere(np.frombuffer(results[0], np.uint8))


def test_who_arrives_when_changes_nothing(job, make):
    n, rounds = 2000, 8  # both ways: 16 000 bytes, and 40 of them
    mine = np.random.default_rng(job.my_pe).normal(size=n) * 10.0 ** (np.arange(n) % 20 - 10)
    source, dest = make(mine), make(np.zeros(n))
    results = set()
    for i in range(rounds):
        time.sleep(0.004 * ((3 * job.my_pe + i) % job.n_pes))
        pyshmem.sum_reduce(dest, source)
        pyshmem.sum_reduce(dest[:5], source[:5])
        results.add(dest.tobytes())
    assert len(results) == 1


@pytest.mark.parametrize("dtype", [*FLOATS, *NARROW])
def test_the_last_pe_of_a_scan_has_the_reductions_bits(job, make, dtype):
    n = 3000
    generator = np.random.default_rng(job.my_pe)
    values = (generator.normal(size=n) * 10.0 ** generator.integers(-2, 3, n)).astype(
        dtype_of(dtype)
    )
    scanned = make(values)
    pyshmem.sum_inscan(scanned, scanned)
    total = summed(make(values))
    if job.my_pe == job.n_pes - 1:
        assert same(pyshmem.to_numpy(scanned), total)


@pytest.mark.parametrize("dtype", ["float32", "float64", "longdouble", *NARROW])
def test_a_nan_of_any_pe_is_the_extreme(job, make, dtype):
    values = np.full(job.n_pes + 2, 1 + job.my_pe).astype(dtype_of(dtype))
    values[job.my_pe] = np.nan  # of one PE, in each of the first elements
    nans = np.arange(values.size) < job.n_pes
    for routine, number in ((pyshmem.max_reduce, job.n_pes), (pyshmem.min_reduce, 1)):
        array = make(values)
        routine(array, array)
        got = pyshmem.to_numpy(array).astype(np.longdouble)
        assert (np.isnan(got) == nans).all()
        assert (got[~nans] == number).all()
