# SPDX-License-Identifier: BSD-3-Clause
"""Broadcast, fcollect and the reductions, against the reference; the same bits on every PE."""

from __future__ import annotations

import numpy as np
import pytest
from reference import dtype_of, factors, pattern, reduce, same

import pyshmem
from pyshmem._core.type_table import ELEMENTS, REDUCE_OPS, elements_of

FAMILY = {"and": "t", "or": "t", "xor": "t", "max": "m", "min": "m", "sum": "s", "prod": "s"}
ROWS = [(op, e.dtype) for op in REDUCE_OPS for e in elements_of(FAMILY[op])]
#: Bytes around the 8 KiB of the stage for small messages, and far above every block.
NBYTES = [0, 8, 24, 8184, 8192, 8200, 40_008, 1_000_008]


def routine(op):
    return getattr(pyshmem, f"{op}_reduce")


# ---- broadcast -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [element.dtype for element in ELEMENTS])
def test_broadcast_reaches_everybody_from_every_root(job, heap, make, dtype):
    source = make(pattern(21, dtype, job.my_pe), heap)
    for root in range(job.n_pes):
        dest = pyshmem.zeros_like(source)
        pyshmem.broadcast(dest, source, root)
        assert same(pyshmem.to_numpy(dest), pattern(21, dtype, root))
    assert same(pyshmem.to_numpy(source), pattern(21, dtype, job.my_pe))


@pytest.mark.parametrize("nbytes", NBYTES)
def test_broadcast_of_every_size(job, heap, make, nbytes):
    root, n = job.n_pes - 1, nbytes // 8
    source = make(pattern(n, "int64", job.my_pe), heap)
    dest = make(np.full(n + 1, -1), heap)
    pyshmem.broadcast(dest, source, root)
    got = pyshmem.to_numpy(dest)
    assert (got[:n] == pattern(n, "int64", root)).all()
    assert got[n] == -1


@pytest.mark.parametrize("n", [5, 5000])
def test_broadcast_in_place(job, heap, make, n):
    array = make(pattern(n, "int64", job.my_pe), heap)
    pyshmem.broadcast(array, array, 0)
    assert (pyshmem.to_numpy(array) == pattern(n, "int64", 0)).all()


def test_broadcast_of_some_elements(job, heap, make):
    source, dest = make(pattern(10, "float32", job.my_pe), heap), make(np.zeros(10, "f4"), heap)
    pyshmem.broadcast(dest, source, 0, nelems=4)
    assert (pyshmem.to_numpy(dest) == [*pattern(10, "float32", 0)[:4], *[0] * 6]).all()


# ---- fcollect ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [element.dtype for element in ELEMENTS])
def test_fcollect_concatenates_in_pe_order(job, heap, make, dtype):
    source = make(pattern(13, dtype, job.my_pe), heap)
    dest = make(pattern(13 * job.n_pes, dtype, 9), heap)
    pyshmem.fcollect(dest, source)
    expected = np.concatenate([pattern(13, dtype, pe) for pe in range(job.n_pes)])
    assert same(pyshmem.to_numpy(dest), expected)


@pytest.mark.parametrize("nbytes", NBYTES)
def test_fcollect_of_every_size(job, heap, make, nbytes):
    n = nbytes // 8
    source = make(pattern(n, "int64", job.my_pe), heap)
    dest = make(np.full((job.n_pes, n), -1), heap)
    pyshmem.fcollect(dest, source)
    assert (pyshmem.to_numpy(dest) == [pattern(n, "int64", pe) for pe in range(job.n_pes)]).all()


def test_fcollect_leaves_what_is_behind_its_elements(job, make):
    source, dest = make(pattern(6, "int16", job.my_pe)), make(np.full(4 * job.n_pes, -1, "i2"))
    pyshmem.fcollect(dest, source, nelems=2)
    expected = [value for pe in range(job.n_pes) for value in pattern(6, "int16", pe)[:2]]
    assert dest.tolist() == expected + [-1] * (2 * job.n_pes)


# ---- reductions ----------------------------------------------------------------------------------


def data(op, dtype, n, pe):
    return factors(n, dtype, pe) if op in ("sum", "prod") else pattern(n, dtype, pe)


@pytest.mark.parametrize("n", [0, 1, 7, 4099])
@pytest.mark.parametrize(("op", "dtype"), ROWS)
def test_reduction_equals_the_reference(job, make, same_everywhere, op, dtype, n):
    dest, source = make(data(op, dtype, n, 9)), make(data(op, dtype, n, job.my_pe))
    routine(op)(dest, source)
    assert same(dest, reduce(op, [data(op, dtype, n, pe) for pe in range(job.n_pes)]))
    assert same(source, data(op, dtype, n, job.my_pe))
    if dtype != "longdouble":
        same_everywhere(dest)


@pytest.mark.parametrize(("op", "dtype"), ROWS)
def test_reduction_on_the_device_heap_in_place(job, make, op, dtype):
    if job.device == "none":
        pytest.skip("the job has no device heap")
    for n in (5, 5003):
        array = make(data(op, dtype, n, job.my_pe), "device")
        routine(op)(array, array)
        expected = reduce(op, [data(op, dtype, n, pe) for pe in range(job.n_pes)])
        assert same(pyshmem.to_numpy(array), expected)


@pytest.mark.parametrize("nbytes", NBYTES)
def test_reduction_of_every_size(job, heap, make, nbytes):
    n = nbytes // 8
    source = make(pattern(n, "int64", job.my_pe), heap)
    dest = make(np.full(n + 1, -1), heap)
    pyshmem.sum_reduce(dest, source)
    got = pyshmem.to_numpy(dest)
    assert (got[:n] == sum(pattern(n, "int64", pe) for pe in range(job.n_pes))).all()
    assert got[n] == -1


@pytest.mark.parametrize("n", [3, 2001])
@pytest.mark.parametrize("op", ["sum", "prod", "min", "max"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "longdouble"])
def test_rounding_is_the_references_in_pe_order(job, make, same_everywhere, dtype, op, n):
    def numbers(pe):
        generator = np.random.default_rng(1000 * n + pe)
        return (generator.normal(size=n) * 10.0 ** generator.integers(-3, 3, n)).astype(
            dtype_of(dtype)
        )

    array = make(numbers(job.my_pe))
    routine(op)(array, array)
    assert same(array, reduce(op, [numbers(pe) for pe in range(job.n_pes)]))
    if dtype != "longdouble":
        same_everywhere(array)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_products_are_the_same_everywhere(job, make, same_everywhere, dtype):
    numbers = [
        np.random.default_rng(pe).normal(size=(999, 2)).astype(dtype).view(dtype)[:, :1] * (1 + 2j)
        for pe in range(job.n_pes)
    ]
    dest, source = make(numbers[0].astype(dtype)), make(numbers[job.my_pe].astype(dtype))
    pyshmem.prod_reduce(dest, source)
    expected = reduce("prod", [values.astype(dtype) for values in numbers])
    assert np.allclose(dest, expected, rtol=1e-5)
    same_everywhere(dest)


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "int64", "uint64"])
def test_integer_sums_and_products_wrap_around(job, make, dtype):
    limits = np.iinfo(dtype)
    parts = [
        np.array([limits.max, limits.min, 3, limits.max - pe], dtype) for pe in range(job.n_pes)
    ]
    for op in ("sum", "prod"):
        array = make(parts[job.my_pe])
        routine(op)(array, array)
        assert (array == reduce(op, parts)).all()


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8", "uint64"])
def test_min_and_max_have_the_sign_of_the_dtype(job, make, dtype):
    limits = np.iinfo(dtype)
    parts = [
        np.array([limits.min, limits.max, pe], dtype)[:: 1 - 2 * (pe % 2)]
        for pe in range(job.n_pes)
    ]
    for op in ("min", "max"):
        array = make(parts[job.my_pe])
        routine(op)(array, array)
        assert (array == reduce(op, parts)).all()


@pytest.mark.parametrize("element", ELEMENTS, ids=lambda element: element.name)
def test_each_reduction_takes_the_dtypes_of_its_table(element):
    array = pyshmem.ones(2, dtype_of(element.dtype))
    for op, family in FAMILY.items():
        if family not in element.families:
            with pytest.raises(
                TypeError, match=f"{op}_reduce: dtype {array.dtype.name} is outside"
            ):
                routine(op)(array, array)


def test_dest_and_source_may_lie_on_different_heaps(job, make):
    if job.device == "none":
        pytest.skip("the job has no device heap")
    for n in (4, 4000):
        expected = sum(pattern(n, "int64", pe) for pe in range(job.n_pes))
        for here, there in (("host", "device"), ("device", "host")):
            source, dest = make(pattern(n, "int64", job.my_pe), here), make(np.zeros(n, int), there)
            pyshmem.sum_reduce(dest, source)
            assert (pyshmem.to_numpy(dest) == expected).all()
            pyshmem.broadcast(dest, source, 0)
            assert (pyshmem.to_numpy(dest) == pattern(n, "int64", 0)).all()


# ---- one after the other -------------------------------------------------------------------------


def test_collectives_follow_each_other_without_barriers(job, heap, make):
    """The PEs are late in turn; small and large messages change places."""
    rounds = 60
    small, large = make(np.zeros(3, int), heap), make(np.zeros(2000, int), heap)
    total, wide = pyshmem.zeros_like(small), pyshmem.zeros_like(large)
    everything = make(np.zeros((job.n_pes, 3), int), heap)
    for i in range(rounds):
        if i % job.n_pes == job.my_pe:
            sum(range(20_000))
        pyshmem.put(small, np.arange(3) + i + job.my_pe, job.my_pe)
        pyshmem.put(large, np.arange(2000) * i + job.my_pe, job.my_pe)
        pyshmem.sum_reduce(total, small)
        pyshmem.max_reduce(wide, large)
        pyshmem.fcollect(everything, small)
        pyshmem.broadcast(large, wide, i % job.n_pes)
        expected = [np.arange(3) + i + pe for pe in range(job.n_pes)]
        assert (pyshmem.to_numpy(total) == sum(expected)).all()
        assert (pyshmem.to_numpy(everything) == expected).all()
        assert (pyshmem.to_numpy(large) == np.arange(2000) * i + job.n_pes - 1).all()


# ---- mistakes ------------------------------------------------------------------------------------


def test_a_root_outside_the_team_is_refused(job):
    array = pyshmem.zeros(4)
    for root in (-1, job.n_pes):
        with pytest.raises(ValueError, match=f"root {root} is outside the team of {job.n_pes} PE"):
            pyshmem.broadcast(array, array, root)


def test_a_dest_that_is_too_small_is_refused(job):
    source = pyshmem.zeros(4)
    with pytest.raises(ValueError, match=f"source has 4 elements.* dest has {4 * job.n_pes - 1}"):
        pyshmem.fcollect(pyshmem.zeros(4 * job.n_pes - 1), source)
    with pytest.raises(ValueError, match="source has 4 elements, but dest has 3"):
        pyshmem.sum_reduce(pyshmem.zeros(3), source)


def test_an_array_that_is_too_short_is_told_how_long_it_is_to_be(job):
    source = pyshmem.ones(4)
    wanted = (
        r"make dest \d times as long as source" if job.n_pes > 1 else "dest has 3; pass nelems="
    )
    with pytest.raises(ValueError, match=wanted):
        pyshmem.fcollect(pyshmem.zeros(3), source)


def test_overlapping_arrays_are_refused():
    array = pyshmem.zeros(100)
    for call in (
        lambda: pyshmem.broadcast(array[1:11], array[:10], 0),
        lambda: pyshmem.sum_reduce(array[1:11], array[:10]),
        lambda: pyshmem.fcollect(array, array[:10]),
    ):
        with pytest.raises((ValueError, pyshmem.MismatchError), match="overlap"):
            call()


def test_different_arguments_are_told_to_all_in_checking_mode(job, checking):
    if job.n_pes == 1:
        pytest.skip("one PE agrees with itself")
    array, other = pyshmem.zeros(8), pyshmem.zeros(8 * job.n_pes)
    first, second = pyshmem.zeros(8), pyshmem.zeros(8)
    odd = job.my_pe == job.n_pes - 1
    mine = second if odd else first
    for call, message in (
        (lambda: pyshmem.sum_reduce(array, array, nelems=7 if odd else 8), "bytes on PE"),
        (lambda: (pyshmem.max_reduce if odd else pyshmem.min_reduce)(array, array), "max_reduce"),
        (lambda: pyshmem.broadcast(array, array, 1 if odd else 0), "root"),
        (lambda: pyshmem.fcollect(other, array, nelems=3 if odd else 4), "bytes on PE"),
        (
            lambda: pyshmem.sum_reduce(*(a.view(np.int64 if odd else float) for a in (array,) * 2)),
            "another type",
        ),
        (
            lambda: pyshmem.broadcast(array, array, 0) if odd else pyshmem.sum_reduce(array, array),
            r"(sum_reduce|broadcast) on PE \d, but (sum_reduce|broadcast) on PE \d",
        ),
        (lambda: pyshmem.sum_reduce(mine, array), "sum_reduce: dest is another array on PE"),
        (lambda: pyshmem.sum_reduce(array, mine), "sum_reduce: source is another array on PE"),
        (lambda: pyshmem.broadcast(mine, array, 0), "dest is another array on PE"),
        (lambda: pyshmem.fcollect(other, mine), "source is another array on PE"),
        (lambda: pyshmem.sum_inscan(mine, array), "dest is another array on PE"),
    ):
        with pytest.raises(pyshmem.MismatchError, match=message):
            call()
    pyshmem.sum_reduce(array, array)


@pytest.mark.parametrize("before", [0, 3])
def test_a_collective_against_a_sync_of_a_team_is_told_in_checking_mode(job, checking, before):
    if job.n_pes == 1:
        pytest.skip("one PE agrees with itself")
    array = pyshmem.zeros(8)
    with pyshmem.TEAM_WORLD.split_strided(0, 1, job.n_pes) as team:
        for _ in range(before):  # they leave what a member says of its call
            pyshmem.sum_reduce(array, array, team=team)
        if job.my_pe == job.n_pes - 1:
            team.sync()
        else:
            with pytest.raises(pyshmem.MismatchError, match=r"sum_reduce on PE \d, but a sync"):
                pyshmem.sum_reduce(array, array, team=team)
