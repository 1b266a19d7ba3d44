# SPDX-License-Identifier: BSD-3-Clause
"""iput, iget, ibput and ibget against NumPy's slices."""

from __future__ import annotations

import numpy as np
import pytest
from reference import pattern, same

import pyshmem
from pyshmem._core.type_table import elements_of

DTYPES = [element.dtype for element in elements_of("r")]
STRIDES = [(1, 1), (2, 1), (1, 3), (3, 2), (7, 7)]


@pytest.mark.parametrize("dtype", DTYPES)
def test_iput_of_every_dtype(job, heap, make, show, right, left, dtype):
    dest = make(pattern(24, dtype, 50), heap)
    pyshmem.iput(dest, pattern(16, dtype, job.my_pe), right, dst=3, sst=2)
    expected = pattern(24, dtype, 50)
    expected[::3] = pattern(16, dtype, left)[::2]
    assert same(show(dest), expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_iget_of_every_dtype(job, heap, make, right, dtype):
    source = make(pattern(24, dtype, job.my_pe), heap)
    dest = pattern(16, dtype, 50)
    pyshmem.iget(dest, source, right, dst=2, sst=3)
    expected = pattern(16, dtype, 50)
    expected[::2] = pattern(24, dtype, right)[::3]
    assert same(dest, expected)


@pytest.mark.parametrize(("dst", "sst"), STRIDES)
@pytest.mark.parametrize("nelems", [0, 1, 5, 300])
def test_strides_and_counts(job, heap, make, show, right, left, dst, sst, nelems):
    dest = make(np.full(300 * dst, -1), heap)
    source = make(pattern(300 * sst, "int64", job.my_pe), heap)
    pyshmem.iput(dest, source, right, dst=dst, sst=sst, nelems=nelems)
    expected = np.full(300 * dst, -1)
    expected[: nelems * dst : dst] = pattern(300 * sst, "int64", left)[: nelems * sst : sst]
    assert (show(dest) == expected).all()
    back = np.full(300 * sst, -1)
    pyshmem.iget(back, dest, right, dst=sst, sst=dst, nelems=nelems)
    expected = np.full(300 * sst, -1)
    expected[: nelems * sst : sst] = pattern(300 * sst, "int64", job.my_pe)[: nelems * sst : sst]
    assert (back == expected).all()


@pytest.mark.parametrize(("bsize", "dst", "sst"), [(1, 1, 1), (3, 5, 4), (4, 4, 9), (2, 6, 2)])
@pytest.mark.parametrize("dtype", ["int8", "float32", "complex128"])
def test_blocks(job, heap, make, show, right, left, dtype, bsize, dst, sst):
    n = 6

    def blocks(to, origin, to_step, step):
        result = to.copy()
        for i in range(n):
            result[i * to_step : i * to_step + bsize] = origin[i * step : i * step + bsize]
        return result

    dest = make(pattern(n * dst, dtype, 40), heap)
    options = {"bsize": bsize, "dst": dst, "sst": sst}
    pyshmem.ibput(dest, pattern(n * sst, dtype, job.my_pe), right, **options)
    filled = blocks(pattern(n * dst, dtype, 40), pattern(n * sst, dtype, left), dst, sst)
    assert same(show(dest), filled)
    got = pattern(n * sst, dtype, 30)
    pyshmem.ibget(got, dest, right, bsize=bsize, dst=sst, sst=dst, nblocks=n)
    theirs = blocks(pattern(n * dst, dtype, 40), pattern(n * sst, dtype, job.my_pe), dst, sst)
    assert same(got, blocks(pattern(n * sst, dtype, 30), theirs, sst, dst))


def test_the_last_block_may_end_with_the_array(job, make, show, right, left):
    dest = make(np.zeros(7, int))
    pyshmem.ibput(dest, np.arange(5) + job.my_pe, right, bsize=2, dst=5, sst=3)
    pyshmem.barrier_all()
    assert dest.tolist() == [left, left + 1, 0, 0, 0, left + 3, left + 4]
    pyshmem.barrier_all()
    pyshmem.ibput(dest, np.arange(4), right, bsize=2)
    assert (show(dest)[:4] == np.arange(4)).all()


def test_strided_copies_on_a_context(job, make, right, left):
    dest = make(np.zeros(9, int))
    with pyshmem.Context() as ctx:
        pyshmem.iput(dest, np.arange(3) + job.my_pe, right, dst=4, ctx=ctx)
        ctx.quiet()
        pyshmem.sync_all()
        got = np.zeros(3, int)
        pyshmem.iget(got, dest, right, sst=4, ctx=ctx)
        assert got.tolist() == [job.my_pe, job.my_pe + 1, job.my_pe + 2]
    assert dest[::4].tolist() == [left, left + 1, left + 2]


def test_wrong_strides_and_counts_are_refused(job, make):
    dest, source = make(np.zeros(10, int)), np.ones(10, int)
    for options, text in (
        ({"dst": 0}, "dst is 0"),
        ({"sst": -1}, "sst is -1"),
        ({"dst": 2}, "dest, which has 10"),
        ({"sst": 2, "nelems": 6}, "source, which has 10"),
        ({"nelems": 11}, "11 elements"),
        ({"nelems": -1}, "nelems is -1"),
    ):
        with pytest.raises(ValueError, match=text):
            pyshmem.iput(dest, source, 0, **options)
        with pytest.raises(ValueError):
            pyshmem.iget(source, dest, 0, **{"nelems": 10, **options})
    for options, text in (
        ({"bsize": 0}, "bsize is 0"),
        ({"bsize": 3, "dst": 2}, "dst is 2; give 3 or more"),
        ({"bsize": 11, "nblocks": 1}, "11"),
        ({"bsize": 2, "nblocks": -1}, "nblocks is -1"),
    ):
        with pytest.raises(ValueError, match=text):
            pyshmem.ibput(dest, source, 0, **options)
    with pytest.raises(TypeError, match="they must be the same"):
        pyshmem.iput(dest, np.ones(3), 0)
    with pytest.raises(ValueError, match="not on a symmetric heap"):
        pyshmem.iput(source, source, 0)
    for pe in (-1, job.n_pes):
        with pytest.raises(ValueError, match=f"pe {pe} is outside"):
            pyshmem.iput(dest, source, pe)
    assert not dest.any()
