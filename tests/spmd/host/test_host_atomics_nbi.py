# SPDX-License-Identifier: BSD-3-Clause
"""Non-blocking fetching atomics: the value arrives by quiet, the fetch array lives until then."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
from reference import dtype_of, wrap

import pyshmem
from pyshmem._core.library import lib
from pyshmem._core.type_table import ELEMENTS, elements_of

FAMILY = {
    "fetch": "x", "swap": "x", "compare_swap": "a", "fetch_inc": "x", "fetch_add": "x",
    "fetch_and": "b", "fetch_or": "b", "fetch_xor": "b",
}  # fmt: skip
ROWS = [(name, e.dtype) for name, letter in FAMILY.items() for e in elements_of(letter)]
ARGUMENTS = {"fetch": (), "fetch_inc": (), "compare_swap": (7, 5)}
AFTER = {
    "fetch": lambda old: old, "swap": lambda old: 5, "compare_swap": lambda old: 5,
    "fetch_inc": lambda old: old + 1, "fetch_add": lambda old: old + 5,
    "fetch_and": lambda old: old & 5, "fetch_or": lambda old: old | 5,
    "fetch_xor": lambda old: old ^ 5,
}  # fmt: skip


def routine(name):
    return getattr(pyshmem, f"atomic_{name}_nbi")


@pytest.mark.parametrize(("name", "dtype"), ROWS)
def test_the_old_value_arrives_by_quiet(job, heap, make, show, right, name, dtype):
    word, fetch = make(np.full(2, 7, dtype), heap), np.zeros(2, dtype)
    pyshmem.barrier_all()
    routine(name)(fetch, word, *ARGUMENTS.get(name, (5,)), right)
    pyshmem.quiet()
    assert fetch.tolist() == [7, 0]
    assert show(word).tolist() == [AFTER[name](7), 7]


@pytest.mark.parametrize("name", ["fetch_add", "swap"])
def test_many_at_once_on_a_context(job, make, name):
    word, n = make(np.zeros(1, int)), 100
    fetched = np.full((n, 1), -1)
    with pyshmem.Context() as ctx:
        for i in range(n):
            routine(name)(fetched[i], word, 1, 0, ctx=ctx)
        ctx.quiet()
    assert (fetched >= 0).all()
    if name == "fetch_add":
        assert len(set(fetched[:, 0].tolist())) == n
        pyshmem.barrier_all()
        assert pyshmem.g(word, 0) == n * job.n_pes


def test_the_fetch_array_is_kept_while_something_is_outstanding(job, make, right):
    class Traced(np.ndarray):
        pass

    word = make(np.zeros(1, int))
    fetch = np.zeros(1, int).view(Traced)
    watch = weakref.ref(fetch)
    pyshmem.atomic_fetch_add_nbi(fetch, word, 1, right)
    del fetch
    pyshmem.fence()
    gc.collect()
    assert (watch() is not None) == bool(lib.ishmemx_outstanding())
    pyshmem.quiet()
    gc.collect()
    assert watch() is None


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint32", "uint64"])
def test_extreme_values(job, make, right, dtype):
    limits = np.iinfo(dtype)
    word, fetch = make(np.array([limits.max], dtype)), np.zeros(1, dtype)
    pyshmem.barrier_all()
    pyshmem.atomic_fetch_add_nbi(fetch, word, 1, right)
    pyshmem.quiet()
    assert fetch[0] == limits.max
    pyshmem.barrier_all()
    assert word[0] == wrap(limits.max + 1, dtype)
    pyshmem.barrier_all()
    pyshmem.atomic_swap_nbi(fetch, word, limits.min, right)
    pyshmem.barrier_all()
    assert word[0] == limits.min
    for value in (limits.max + 1, limits.min - 1):
        with pytest.raises(OverflowError, match=f"value {value} is outside {dtype}"):
            pyshmem.atomic_swap_nbi(fetch, word, value, right)


@pytest.mark.parametrize("element", ELEMENTS, ids=lambda element: element.name)
def test_each_routine_takes_the_dtypes_of_its_table(element):
    array = pyshmem.ones(2, dtype_of(element.dtype))
    fetch = array.copy()
    for name, letter in FAMILY.items():
        if letter not in element.families:
            with pytest.raises(TypeError, match=f"dtype {array.dtype.name} is outside"):
                routine(name)(fetch, array, *ARGUMENTS.get(name, (1,)), 0)


def test_mistakes(job, make):
    word, fetch = make(np.zeros(1, int)), np.zeros(1, int)
    with pytest.raises(TypeError, match="fetch has dtype int32"):
        pyshmem.atomic_fetch_nbi(np.zeros(1, "i4"), word, 0)
    with pytest.raises(ValueError, match="fetch has no elements"):
        pyshmem.atomic_fetch_nbi(fetch[:0], word, 0)
    with pytest.raises(ValueError, match="not on a symmetric heap"):
        pyshmem.atomic_fetch_nbi(fetch, fetch, 0)
    with pytest.raises(ValueError, match=f"pe {job.n_pes} is outside"):
        pyshmem.atomic_fetch_inc_nbi(fetch, word, job.n_pes)
    fetch.flags.writeable = False
    with pytest.raises(ValueError, match="fetch is read-only"):
        pyshmem.atomic_fetch_inc_nbi(fetch, word, 0)
