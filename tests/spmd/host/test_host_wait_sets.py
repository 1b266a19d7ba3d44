# SPDX-License-Identifier: BSD-3-Clause
"""wait_until and test in their all, any, some and vector forms."""

from __future__ import annotations

import numpy as np
import pytest
from reference import COMPARISONS

import pyshmem
from pyshmem import CMP_EQ, CMP_GE, CMP_GT, CMP_NE, Cmp

DTYPES = ["int32", "int64", "uint32", "uint64"]
VERBS = ["wait_until", "test"]


FORMS = {
    routine.__name__: routine
    for routine in (
        *(pyshmem.test_all, pyshmem.test_any, pyshmem.test_some),
        *(pyshmem.test_all_vector, pyshmem.test_any_vector, pyshmem.test_some_vector),
        *(pyshmem.wait_until_all, pyshmem.wait_until_any, pyshmem.wait_until_some),
        *(pyshmem.wait_until_all_vector, pyshmem.wait_until_any_vector),
        pyshmem.wait_until_some_vector,
    )
}


def form(verb, which, vector=False):
    return FORMS[f"{verb}_{which}{'_vector' if vector else ''}"]


@pytest.mark.parametrize("cmp", list(Cmp), ids=lambda cmp: cmp.name)
@pytest.mark.parametrize("dtype", DTYPES)
def test_test_compares_with_the_sign_of_the_dtype(heap, make, dtype, cmp):
    limits = np.iinfo(dtype)
    values = [limits.min, limits.max, 5, 6, 7]
    ivars = make(np.array(values, dtype), heap)
    holds = [i for i, value in enumerate(values) if COMPARISONS[cmp.name](value, 6)]
    assert sorted(pyshmem.test_some(ivars, cmp, 6).tolist()) == holds
    assert pyshmem.test_all(ivars, cmp, 6) == (len(holds) == 5)
    assert pyshmem.test_any(ivars, cmp, 6) in holds
    mixed = np.array([limits.min, limits.min, 6, 6, 6], dtype)
    holds = [i for i in range(5) if COMPARISONS[cmp.name](values[i], int(mixed[i]))]
    assert sorted(pyshmem.test_some_vector(ivars, cmp, mixed).tolist()) == holds
    assert pyshmem.test_all_vector(ivars, cmp, mixed) == (len(holds) == 5)
    assert pyshmem.test_any_vector(ivars, cmp, mixed) in (holds or [None])


@pytest.mark.parametrize("vector", [False, True])
def test_waiting_for_the_others(job, heap, make, vector):
    ivars = make(np.zeros(job.n_pes, int), heap)
    pyshmem.barrier_all()
    for pe in range(job.n_pes):
        pyshmem.atomic_set(ivars[job.my_pe :], job.my_pe + 1, pe)
    values = np.arange(job.n_pes) + 1
    if vector:
        pyshmem.wait_until_all_vector(ivars, CMP_EQ, values)
        assert (pyshmem.to_numpy(ivars) == values).all()
    else:
        pyshmem.wait_until_all(ivars, CMP_NE, 0)
        assert (pyshmem.to_numpy(ivars) != 0).all()


@pytest.mark.parametrize("vector", [False, True])
def test_any_with_a_mask_takes_each_message_once(job, make, vector):
    ivars, status = make(np.zeros(job.n_pes, np.uint64)), np.zeros(job.n_pes, np.intc)
    pyshmem.barrier_all()
    for pe in range(job.n_pes):
        pyshmem.atomic_set(ivars[job.my_pe :], 100 + job.my_pe, pe)
    seen = set()
    for _ in range(job.n_pes):
        values = np.full(job.n_pes, 100, np.uint64) if vector else 100
        index = form("wait_until", "any", vector)(ivars, CMP_GE, values, status=status)
        assert ivars[index] == 100 + index
        status[index] = 1
        seen.add(index)
    assert seen == set(range(job.n_pes))
    assert form("wait_until", "any", vector)(ivars, CMP_GE, values, status=status) is None


@pytest.mark.parametrize("vector", [False, True])
def test_some_finds_all_sooner_or_later(job, make, vector):
    ivars, status = make(np.zeros(job.n_pes, int)), np.zeros(job.n_pes, bool)
    pyshmem.barrier_all()
    for pe in range(job.n_pes):
        pyshmem.atomic_add(ivars[job.my_pe :], 3, pe)
    while not status.all():
        values = [0] * job.n_pes if vector else 0
        found = form("wait_until", "some", vector)(ivars, CMP_GT, values, status=status)
        assert found.size
        assert not status[found].any()
        assert (ivars[found] == 3).all()
        status[found] = True
    assert form("wait_until", "some", vector)(ivars, CMP_GT, values, status=status).size == 0


@pytest.mark.parametrize("verb", VERBS)
def test_an_empty_set(make, verb):
    ivars = make(np.zeros(4, int))
    for nelems, status in ((0, None), (None, np.ones(4, np.intc)), (None, [1, 2, -1, True])):
        options = {"nelems": nelems, "status": status}
        for vector in (False, True):
            value = np.ones(4 if nelems is None else 0, int) if vector else 1
            everything = form(verb, "all", vector)(ivars, CMP_EQ, value, **options)
            assert everything in (None, True)
            assert form(verb, "any", vector)(ivars, CMP_EQ, value, **options) is None
            assert form(verb, "some", vector)(ivars, CMP_EQ, value, **options).size == 0
    assert pyshmem.test_all(ivars, CMP_EQ, 1, nelems=0) is True


@pytest.mark.parametrize("verb", VERBS)
def test_status_excludes_and_is_not_written(make, verb):
    ivars, status = make(np.array([1, 0, 1, 0])), np.array([1, 0, 0, 1], np.intc)
    assert form(verb, "any")(ivars, CMP_EQ, 1, status=status) == 2
    assert form(verb, "some")(ivars, CMP_EQ, 1, status=status).tolist() == [2]
    assert status.tolist() == [1, 0, 0, 1]
    assert pyshmem.test_all(ivars, CMP_EQ, 1, status=[0, 1, 0, 1])
    assert not pyshmem.test_all(ivars, CMP_EQ, 1, status=status)


@pytest.mark.parametrize("verb", VERBS)
def test_a_series_of_any_reports_every_index(make, verb):
    ivars = make(np.ones(9, int))
    assert {form(verb, "any")(ivars, CMP_EQ, 1) for _ in range(30)} == set(range(9))
    ones = np.ones(9, int)
    assert {form(verb, "any", True)(ivars, CMP_EQ, ones) for _ in range(30)} == set(range(9))


@pytest.mark.parametrize("verb", VERBS)
def test_only_the_first_nelems_count(make, verb):
    ivars = make(np.array([0, 0, 1, 1]))
    assert form(verb, "some")(ivars, CMP_EQ, 0, nelems=3).tolist() in ([0, 1], [1, 0])
    assert pyshmem.test_any(ivars, CMP_EQ, 1, nelems=2) is None


@pytest.mark.parametrize("which", ["all", "any", "some"])
@pytest.mark.parametrize("verb", VERBS)
def test_mistakes(make, verb, which):
    ivars, routine = make(np.zeros(4, "i4")), form(verb, which)
    with pytest.raises(ValueError, match="nelems is 5; ivars has 4"):
        routine(ivars, CMP_EQ, 0, nelems=5)
    with pytest.raises(ValueError, match="status has 1 element; it needs one for each of 4"):
        routine(ivars, CMP_EQ, 0, status=[0])
    with pytest.raises(OverflowError, match="is outside int32"):
        routine(ivars, CMP_EQ, 2**31)
    with pytest.raises(ValueError, match="cmp"):
        routine(ivars, 9, 0)
    with pytest.raises(TypeError, match="cmp_value is 'x'"):
        routine(ivars, CMP_EQ, "x")
    with pytest.raises(TypeError, match=f"{verb}_{which}: dtype float32 is outside"):
        routine(pyshmem.zeros(4, "f4"), CMP_EQ, 0)
    with pytest.raises(ValueError, match="not on a symmetric heap"):
        routine(np.zeros(4, int), CMP_EQ, 0)
    with pytest.raises(ValueError, match="cmp_values has 3 elements; it needs one for each of 4"):
        form(verb, which, True)(ivars, CMP_EQ, [0, 0, 0])
    with pytest.raises(OverflowError, match="is outside int32"):
        form(verb, which, True)(ivars, CMP_EQ, [0, 0, 0, 2**40])


BIG = 2**63 + 5


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        ("u8", [BIG, 1]),
        ("u8", (np.uint64(BIG), np.int8(1))),
        ("u8", np.array([BIG, 1], object)),
        ("u8", [[BIG], [1]]),
        ("i8", [np.uint64(5), np.int64(-6)]),
        ("i4", np.array([5, 1], np.uint64)),
        ("i8", [True, np.False_]),
        ("i8", np.array([True, False])),
    ],
)
def test_the_right_hand_sides_are_integers_of_any_size_and_shape(make, dtype, values):
    given = [int(value) for value in np.asarray(values, object).flat]
    ivars = make(np.array(given, dtype))
    assert pyshmem.test_all_vector(ivars, CMP_EQ, values)
    assert pyshmem.test_some_vector(ivars, pyshmem.CMP_NE, values).size == 0


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ([BIG, -1], OverflowError),
        (np.array([1, -1]), OverflowError),
        ([1.0, 2.0], TypeError),
        (np.ones(2), TypeError),
        ([None, 1], TypeError),
        (["", ""], TypeError),
        ([[1], [1, 2]], TypeError),
        (np.ma.masked_array([1, 1], [0, 1]), TypeError),
        (None, TypeError),
        ([1], ValueError),
        (7, ValueError),
        (iter([1, 2]), TypeError),
    ],
    ids=str,
)
def test_the_right_hand_sides_are_nothing_else(make, values, error):
    with pytest.raises(error, match="cmp_values"):
        pyshmem.test_all_vector(make(np.array([1, 1], "u8")), CMP_EQ, values)


@pytest.mark.parametrize(
    "status",
    [
        np.array([[0, 0], [0, 1]]),
        [[False, False], [False, True]],
        [0, 0, 0, -7],
        (np.False_, 0, 0, np.uint8(9)),
        np.array([0, 0, 0, 2**63], np.uint64),
    ],
    ids=str,
)
def test_a_status_is_integers_or_bools_in_any_shape(make, status):
    ivars = make(np.array([[5, 6], [7, 8]]))
    assert pyshmem.test_all(ivars, pyshmem.CMP_LT, 8, status=status)
    assert pyshmem.test_any(ivars, CMP_EQ, 8, status=status) is None


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (0, ValueError),
        ([0] * 3, ValueError),
        ([None] * 4, TypeError),
        ([float("nan")] * 4, TypeError),
        (np.zeros(4), TypeError),
        ([""] * 4, TypeError),
        ("0000", TypeError),
        ([[0], [0, 1]], TypeError),
        (np.ma.masked_array([0, 0, 0, 0], [0, 0, 0, 1]), TypeError),
        ({0, 1}, TypeError),
    ],
    ids=str,
)
def test_a_status_is_nothing_else(make, status, error):
    with pytest.raises(error, match="status") as told:
        pyshmem.test_all(make(np.zeros(4, int)), CMP_EQ, 0, status=status)
    assert "(1,)" not in str(told.value)
