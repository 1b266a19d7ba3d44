# SPDX-License-Identifier: BSD-3-Clause
"""Atomics of every operation and dtype: alone, and when all PEs want the same word."""

from __future__ import annotations

import numpy as np
import pytest
from reference import wrap

import pyshmem
from pyshmem._core.type_table import ELEMENTS, elements_of

STANDARD = [element.dtype for element in elements_of("a")]
EXTENDED = [element.dtype for element in elements_of("x")]
BITWISE = [element.dtype for element in elements_of("b")]
BITS = {"and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b}

fetching = pytest.mark.parametrize("fetching", [False, True], ids=["plain", "fetching"])


def atomic(name, fetching):
    return getattr(pyshmem, f"atomic_fetch_{name}" if fetching else f"atomic_{name}")


# ---- one PE at a time ----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", EXTENDED)
def test_set_swap_and_fetch(job, right, left, heap, dtype):
    word = pyshmem.full(2, 5, dtype, heap=heap)
    pyshmem.atomic_set(word, 10 + job.my_pe, right)
    pyshmem.barrier_all()
    assert pyshmem.atomic_fetch(word, job.my_pe) == 10 + left
    assert pyshmem.atomic_fetch(word[1:], right) == 5
    pyshmem.barrier_all()
    assert pyshmem.atomic_swap(word, 20 + job.my_pe, right) == 10 + job.my_pe
    pyshmem.barrier_all()
    assert pyshmem.to_numpy(word).tolist() == [20 + left, 5]


@fetching
@pytest.mark.parametrize("dtype", STANDARD)
def test_add_and_inc(job, right, left, heap, dtype, fetching):
    word = pyshmem.full(1, 100 + job.my_pe, dtype, heap=heap)
    before = atomic("add", fetching)(word, 7, right)
    assert before == (100 + right if fetching else None)
    before = atomic("inc", fetching)(word, right)
    assert before == (107 + right if fetching else None)
    pyshmem.barrier_all()
    assert pyshmem.to_numpy(word)[0] == 108 + job.my_pe


@fetching
@pytest.mark.parametrize("name", BITS)
@pytest.mark.parametrize("dtype", BITWISE)
def test_bitwise_operations(job, right, heap, dtype, name, fetching):
    begin = 0b1100 + 16 * job.my_pe
    word = pyshmem.full(1, begin, dtype, heap=heap)
    before = atomic(name, fetching)(word, 0b1010, right)
    assert before == (0b1100 + 16 * right if fetching else None)
    pyshmem.barrier_all()
    assert pyshmem.to_numpy(word)[0] == BITS[name](begin, 0b1010)


@pytest.mark.parametrize("dtype", STANDARD)
def test_compare_swap_changes_only_what_it_expects(job, right, heap, dtype):
    word = pyshmem.full(1, 3, dtype, heap=heap)
    assert pyshmem.atomic_compare_swap(word, 4, 9, right) == 3
    pyshmem.barrier_all()
    assert pyshmem.to_numpy(word)[0] == 3
    pyshmem.barrier_all()
    assert pyshmem.atomic_compare_swap(word, 3, 9, right) == 3
    pyshmem.barrier_all()
    assert pyshmem.to_numpy(word)[0] == 9


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_floats_keep_every_bit(job, dtype):
    word = pyshmem.zeros(1, dtype)
    for value in (float("inf"), -0.0, 1e-30, -7919.0, float(np.finfo(dtype).max)):
        pyshmem.atomic_set(word, value, job.my_pe)
        assert pyshmem.atomic_fetch(word, job.my_pe) == np.dtype(dtype).type(value)
    pyshmem.atomic_swap(word, float("nan"), job.my_pe)
    assert np.isnan(pyshmem.atomic_fetch(word, job.my_pe))


# ---- limits --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", STANDARD)
def test_integers_wrap_around(job, right, heap, dtype):
    limits = np.iinfo(dtype)
    word = pyshmem.full(1, limits.max, dtype, heap=heap)
    assert pyshmem.atomic_fetch_inc(word, right) == limits.max
    pyshmem.barrier_all()
    assert pyshmem.atomic_fetch(word, right) == limits.min
    pyshmem.barrier_all()
    assert pyshmem.atomic_fetch_add(word, limits.max, right) == limits.min
    pyshmem.barrier_all()
    assert pyshmem.to_numpy(word)[0] == wrap(limits.min + limits.max, dtype)


@pytest.mark.parametrize("dtype", STANDARD)
def test_operands_outside_the_dtype_are_refused(job, heap, dtype):
    limits = np.iinfo(dtype)
    word = pyshmem.full(1, 1, dtype, heap=heap)
    calls = [
        lambda value: pyshmem.atomic_add(word, value, job.my_pe),
        lambda value: pyshmem.atomic_fetch_add(word, value, job.my_pe),
        lambda value: pyshmem.atomic_set(word, value, job.my_pe),
        lambda value: pyshmem.atomic_swap(word, value, job.my_pe),
        lambda value: pyshmem.atomic_compare_swap(word, value, 2, job.my_pe),
        lambda value: pyshmem.atomic_compare_swap(word, 1, value, job.my_pe),
        lambda value: pyshmem.atomic_xor(word, value, job.my_pe),
    ]
    for call in calls:
        for value in (limits.max + 1, limits.min - 1, 2**200):
            with pytest.raises(OverflowError, match=f"outside {dtype}"):
                call(value)
        with pytest.raises(TypeError, match=r"1\.5"):
            call(1.5)
    assert pyshmem.atomic_fetch(word, job.my_pe) == 1


#: The families of each routine; adding floats is our extension.
TABLE = {
    "fetch": ("x", lambda a: pyshmem.atomic_fetch(a, 0)),
    "set": ("x", lambda a: pyshmem.atomic_set(a, 1, 0)),
    "swap": ("x", lambda a: pyshmem.atomic_swap(a, 1, 0)),
    "compare_swap": ("a", lambda a: pyshmem.atomic_compare_swap(a, 1, 1, 0)),
    "add": ("ax", lambda a: pyshmem.atomic_add(a, 1, 0)),
    "fetch_add": ("ax", lambda a: pyshmem.atomic_fetch_add(a, 1, 0)),
    "inc": ("ax", lambda a: pyshmem.atomic_inc(a, 0)),
    "fetch_inc": ("ax", lambda a: pyshmem.atomic_fetch_inc(a, 0)),
    "and": ("b", lambda a: pyshmem.atomic_and(a, 1, 0)),
    "fetch_or": ("b", lambda a: pyshmem.atomic_fetch_or(a, 1, 0)),
    "xor": ("b", lambda a: pyshmem.atomic_xor(a, 1, 0)),
}


@pytest.mark.parametrize("routine", TABLE)
@pytest.mark.parametrize("element", ELEMENTS, ids=lambda element: element.name)
def test_each_routine_takes_the_dtypes_of_its_table(routine, element):
    families, call = TABLE[routine]
    word = pyshmem.zeros(1, element.dtype)
    if set(families) & set(element.families):
        call(word)
    else:
        with pytest.raises(TypeError, match="int32, int64, uint32, uint64"):
            call(word)


@pytest.mark.parametrize("dtype", ["int32", "uint64"])
def test_an_address_that_is_not_aligned_is_refused(job, heap, dtype):
    room = pyshmem.zeros(64, np.uint8, heap=heap)
    nbytes = np.dtype(dtype).itemsize
    with pytest.raises(ValueError, match="align"):
        pyshmem.atomic_inc(room[1 : 1 + nbytes].view(dtype), job.my_pe)


# ---- all PEs at once -----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", STANDARD)
def test_tickets_are_dealt_once(job, heap, dtype):
    rounds = 200
    counter = pyshmem.zeros(1, dtype, heap=heap)
    dealt = pyshmem.zeros(rounds * job.n_pes, np.int32)
    for _ in range(rounds):
        pyshmem.atomic_inc(dealt[pyshmem.atomic_fetch_inc(counter, 0) :], 0)
    pyshmem.barrier_all()
    if job.my_pe == 0:
        assert pyshmem.to_numpy(counter)[0] == rounds * job.n_pes
        assert (dealt == 1).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_no_part_of_a_float_sum_is_lost(job, heap, dtype):
    rounds = 100
    total = pyshmem.zeros(1, dtype, heap=heap)
    for _ in range(rounds):
        pyshmem.atomic_add(total, 0.5, 0)
        pyshmem.atomic_fetch_add(total, -0.25, 0)
    pyshmem.barrier_all()
    assert pyshmem.atomic_fetch(total, 0) == rounds * job.n_pes * 0.25


@pytest.mark.parametrize("dtype", BITWISE)
def test_no_bit_is_lost(job, heap, dtype):
    rounds = 100
    words = pyshmem.zeros(3, dtype, heap=heap)
    mine = 1 << job.my_pe
    for _ in range(rounds):
        pyshmem.atomic_or(words, mine, 0)
        assert pyshmem.atomic_fetch_and(words, wrap(~mine, dtype), 0) & mine
        pyshmem.atomic_xor(words[1:], mine, 0)
    pyshmem.atomic_fetch_xor(words[1:], mine, 0)
    pyshmem.atomic_or(words[2:], mine, 0)
    pyshmem.barrier_all()
    if job.my_pe == 0:
        everybody = (1 << job.n_pes) - 1
        assert pyshmem.to_numpy(words).tolist() == [0, everybody, everybody]


@pytest.mark.parametrize("dtype", ["int32", "uint64"])
def test_compare_swap_as_a_lock(job, heap, dtype):
    rounds = 50
    lock, plain = pyshmem.zeros(1, dtype, heap=heap), pyshmem.zeros(1, np.int64, heap=heap)
    for _ in range(rounds):
        while pyshmem.atomic_compare_swap(lock, 0, job.my_pe + 1, 0):
            pass
        pyshmem.p(plain, pyshmem.g(plain, 0) + 1, 0)
        pyshmem.quiet()
        assert pyshmem.atomic_swap(lock, 0, 0) == job.my_pe + 1
    pyshmem.barrier_all()
    assert pyshmem.g(plain, 0) == rounds * job.n_pes


def test_swap_hands_every_value_to_one_pe(job, heap):
    rounds = 100
    word = pyshmem.full(1, -1, np.int64, heap=heap)
    seen = pyshmem.zeros(rounds * job.n_pes + 1, np.int32)
    for i in range(rounds):
        got = pyshmem.atomic_swap(word, i * job.n_pes + job.my_pe, 0)
        pyshmem.atomic_inc(seen[got + 1 :], 0)
    pyshmem.barrier_all()
    if job.my_pe == 0:
        pyshmem.atomic_inc(seen[pyshmem.atomic_fetch(word, 0) + 1 :], 0)
        assert (seen == 1).all()
