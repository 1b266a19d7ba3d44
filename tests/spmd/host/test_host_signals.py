# SPDX-License-Identifier: BSD-3-Clause
"""Signals, waiting and testing, fence and quiet."""

from __future__ import annotations

import numpy as np
import pytest
from reference import COMPARISONS, pattern, same, wrap

import pyshmem
from pyshmem._core.type_table import ELEMENTS, elements_of

WAITABLE = [element.dtype for element in elements_of("a")]
PUTS = (pyshmem.put_signal, pyshmem.put_signal_nbi)
SET, ADD = pyshmem.SIGNAL_SET, pyshmem.SIGNAL_ADD

by_name = {"ids": lambda value: getattr(value, "__name__", str(value))}


# ---- signals -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [element.dtype for element in ELEMENTS])
@pytest.mark.parametrize("routine", PUTS, **by_name)
def test_the_signal_proves_that_its_data_is_there(job, right, left, heap, make, routine, dtype):
    source = make(pattern(33, dtype, job.my_pe), heap)
    dest, signal = pyshmem.zeros_like(source), pyshmem.new_signal(heap=heap)
    routine(dest, source, signal, 7 + job.my_pe, SET, right)
    assert pyshmem.signal_wait_until(signal, pyshmem.CMP_GE, 7) == 7 + left
    assert same(pyshmem.to_numpy(dest), pattern(33, dtype, left))
    assert pyshmem.signal_fetch(signal) == 7 + left


def test_many_rounds_with_two_buffers_and_an_acknowledgement(job, right, left, heap):
    rounds = 200
    boxes, source = pyshmem.zeros((2, 64), np.int64, heap=heap), np.empty(64, np.int64)
    full, taken = pyshmem.new_signal(heap=heap), pyshmem.new_signal(heap=heap)
    for i in range(1, rounds + 1):
        pyshmem.signal_wait_until(taken, pyshmem.CMP_GE, max(i - 2, 0))
        source[:] = i * 10 + job.my_pe
        pyshmem.put_signal(boxes[i % 2], source, full, i, SET, right)
        assert pyshmem.signal_wait_until(full, pyshmem.CMP_GE, i) >= i
        assert (pyshmem.to_numpy(boxes[i % 2]) == i * 10 + left).all()
        pyshmem.signal_add(taken, 1, left)


@pytest.mark.parametrize("routine", PUTS, **by_name)
def test_without_data_the_signal_still_goes(right, heap, routine):
    nothing, signal = pyshmem.zeros(0, heap=heap), pyshmem.new_signal(heap=heap)
    routine(nothing, nothing, signal, 3, SET, right)
    assert pyshmem.signal_wait_until(signal, pyshmem.CMP_EQ, 3) == 3
    pyshmem.barrier_all()
    some = pyshmem.ones(4, heap=heap)
    routine(some, np.zeros(4), signal, 4, ADD, right, nelems=0)
    assert pyshmem.signal_wait_until(signal, pyshmem.CMP_NE, 3) == 7
    assert pyshmem.to_numpy(some).tolist() == [1.0] * 4


def test_set_and_add_without_data(job, right, left, heap):
    signal = pyshmem.new_signal(2, heap=heap)
    pyshmem.signal_set(signal, 2**64 - 1, right)
    pyshmem.signal_op(signal[1:], 10 + job.my_pe, SET, right)
    assert pyshmem.signal_wait_until(signal, pyshmem.CMP_NE, 0) == 2**64 - 1
    assert pyshmem.signal_wait_until(signal[1:], pyshmem.CMP_GT, 0) == 10 + left
    pyshmem.barrier_all()
    pyshmem.signal_add(signal, 6, right)  # wraps around
    assert pyshmem.signal_wait_until(signal, pyshmem.CMP_LT, 100) == 5


def test_added_signals_of_all_pes_are_counted(job, heap):
    rounds = 50
    signal = pyshmem.new_signal(heap=heap)
    for _ in range(rounds):
        for pe in range(job.n_pes):
            pyshmem.signal_add(signal, 1, pe)
    assert pyshmem.signal_wait_until(signal, pyshmem.CMP_GE, rounds * job.n_pes)
    pyshmem.barrier_all()
    assert pyshmem.signal_fetch(signal) == rounds * job.n_pes


def test_data_and_signal_may_lie_on_different_heaps(job, right, left, heap):
    if job.device == "none":
        pytest.skip("the job has no device heap")
    dest = pyshmem.zeros(8, heap=heap)
    signal = pyshmem.new_signal(heap="device" if heap == "host" else "host")
    pyshmem.put_signal(dest, np.full(8, job.my_pe + 1.0), signal, 1, ADD, right)
    pyshmem.signal_wait_until(signal, pyshmem.CMP_EQ, 1)
    assert (pyshmem.to_numpy(dest) == left + 1).all()


def test_a_signal_value_that_looks_like_a_failure_is_a_value(job, heap):
    signal = pyshmem.new_signal(heap=heap)
    marker = 2**64 - 7919
    pyshmem.signal_set(signal, marker, job.my_pe)
    assert pyshmem.signal_fetch(signal) == marker
    assert pyshmem.signal_wait_until(signal, pyshmem.CMP_EQ, marker) == marker


def test_an_integer_that_is_none_is_named(job):
    word, words = pyshmem.new_signal(), pyshmem.zeros(3, np.int32)
    data, pe, eq = np.zeros(2), job.my_pe, pyshmem.CMP_EQ
    box = pyshmem.zeros(2)
    for wrong, told in (("7", "'7' \\(str\\)"), (None, "None"), (0.5, "0.5 \\(float\\)")):
        said = {
            name: rf"^{name} is {told}.*, not an integer" for name in ("cmp", "sig_op", "signal")
        }
        for call in (
            lambda wrong: pyshmem.wait_until(words, wrong, 0),
            lambda wrong: pyshmem.test(words, wrong, 0),
            lambda wrong: pyshmem.wait_until_all(words, wrong, 0),
            lambda wrong: pyshmem.wait_until_any(words, wrong, 0),
            lambda wrong: pyshmem.wait_until_some_vector(words, wrong, [0, 0, 0]),
            lambda wrong: pyshmem.test_all(words, wrong, 0),
            lambda wrong: pyshmem.signal_wait_until(word, wrong, 0),
        ):
            with pytest.raises(TypeError, match=said["cmp"]):
                call(wrong)
        with pytest.raises(TypeError, match=said["signal"].replace("signal", "cmp_value", 1)):
            pyshmem.signal_wait_until(word, eq, wrong)
        for put in (pyshmem.put_signal, pyshmem.put_signal_nbi):
            with pytest.raises(TypeError, match=said["signal"]):
                put(box, data, word, wrong, pyshmem.SIGNAL_SET, pe)
            with pytest.raises(TypeError, match=said["sig_op"]):
                put(box, data, word, 1, wrong, pe)
        with pytest.raises(TypeError, match=said["signal"]):
            pyshmem.signal_set(word, wrong, pe)
        with pytest.raises(TypeError, match=said["sig_op"]):
            pyshmem.signal_op(word, 1, wrong, pe)


def test_an_integer_that_does_not_fit_is_named(job):
    word, words = pyshmem.new_signal(), pyshmem.zeros(3, np.int32)
    with pytest.raises(OverflowError, match=r"^signal is -1, which is outside uint64 \(0\.\."):
        pyshmem.signal_add(word, -1, job.my_pe)
    with pytest.raises(OverflowError, match=f"^cmp_value is {2**64}, which is outside uint64"):
        pyshmem.signal_wait_until(word, pyshmem.CMP_NE, 2**64)
    with pytest.raises(OverflowError, match=f"^cmp_value is {2**31}, which is outside int32"):
        pyshmem.wait_until(words, pyshmem.CMP_NE, 2**31)
    with pytest.raises(OverflowError, match=f"^cmp is {2**40}, which is outside int32"):
        pyshmem.test_any(words, 2**40, 0)


def test_what_is_no_signal_is_refused(job):
    word = pyshmem.new_signal()
    with pytest.raises(TypeError, match="signals are uint64"):
        pyshmem.signal_set(pyshmem.zeros(1, np.int64), 1, job.my_pe)
    with pytest.raises(ValueError, match="not on a symmetric heap"):
        pyshmem.signal_fetch(np.zeros(1, np.uint64))
    for value in (-1, 2**64):
        with pytest.raises(OverflowError):
            pyshmem.signal_set(word, value, job.my_pe)
    for sig_op in (2, -1):
        with pytest.raises(ValueError, match=f"sig_op.*{sig_op}"):
            pyshmem.signal_op(word, 1, sig_op, job.my_pe)
        with pytest.raises(ValueError, match=f"sig_op.*{sig_op}"):
            pyshmem.put_signal(pyshmem.zeros(1), np.ones(1), word, 1, sig_op, job.my_pe)
    with pytest.raises(ValueError, match="cmp is 7"):
        pyshmem.signal_wait_until(word, 7, 1)
    assert pyshmem.signal_fetch(word) == 0


def test_a_refused_put_signal_does_not_signal(job, right):
    dest, word = pyshmem.zeros(4), pyshmem.new_signal()
    for arguments in ((np.zeros(5), word, 1, SET, right), (np.zeros(4), word, 1, SET, job.n_pes)):
        with pytest.raises(ValueError, match=r"4|pe \d is outside"):
            pyshmem.put_signal(dest, *arguments)
    pyshmem.barrier_all()
    assert pyshmem.signal_fetch(word) == 0


# ---- wait_until and test -------------------------------------------------------------------------


@pytest.mark.parametrize("cmp", COMPARISONS)
@pytest.mark.parametrize("dtype", WAITABLE)
def test_comparisons_have_the_sign_of_the_dtype(job, heap, dtype, cmp):
    limits = np.iinfo(dtype)
    middle = wrap(1 << (limits.bits - 1), dtype)  # the smallest, or the largest half
    values = sorted({limits.min, limits.max, middle, wrap(-1, dtype), 0, 1, 2})
    word = pyshmem.zeros(1, dtype, heap=heap)
    for value in values:
        pyshmem.p(word, value, job.my_pe)
        for other in values:
            holds = COMPARISONS[cmp](value, other)
            assert pyshmem.test(word, pyshmem.Cmp[cmp], other) is holds, (value, other)
            if holds:
                pyshmem.wait_until(word, pyshmem.Cmp[cmp], other)


#: What is there, what the neighbour writes, and the right-hand side that only the latter satisfies.
CHANGES = {
    "EQ": (0, 5, 5), "NE": (5, 6, 5), "GT": (5, 6, 5), "GE": (4, 5, 5), "LT": (5, 4, 5),
    "LE": (6, 5, 5),
}  # fmt: skip


@pytest.mark.parametrize("cmp", CHANGES)
@pytest.mark.parametrize("dtype", WAITABLE)
def test_a_wait_ends_when_the_neighbour_changes_the_word(right, heap, dtype, cmp):
    before, after, value = CHANGES[cmp]
    word = pyshmem.full(1, before, dtype, heap=heap)
    data = pyshmem.zeros(1, heap=heap)
    assert not pyshmem.test(word, pyshmem.Cmp[cmp], value)
    pyshmem.barrier_all()
    pyshmem.p(data, 2.5, right)
    pyshmem.fence()
    pyshmem.atomic_set(word, after, right)
    pyshmem.wait_until(word, pyshmem.Cmp[cmp], value)
    assert pyshmem.to_numpy(data)[0] == 2.5


def test_a_wait_for_one_of_many_writers(job, heap):
    count = pyshmem.zeros(1, np.int32, heap=heap)
    for pe in range(job.n_pes):
        pyshmem.atomic_add(count, 1, pe)
    pyshmem.wait_until(count, pyshmem.CMP_EQ, job.n_pes)


def test_what_cannot_be_waited_for_is_refused(job):
    for element in ELEMENTS:
        if "a" not in element.families:
            with pytest.raises(TypeError, match="int32, int64, uint32, uint64"):
                pyshmem.wait_until(pyshmem.zeros(1, element.dtype), pyshmem.CMP_EQ, 0)
    word = pyshmem.zeros(1, np.int32)
    for cmp in (0, 7):
        with pytest.raises(ValueError, match=f"cmp is {cmp}"):
            pyshmem.wait_until(word, cmp, 0)
    with pytest.raises(OverflowError):
        pyshmem.test(word, pyshmem.CMP_EQ, 2**31)
    with pytest.raises(TypeError):
        pyshmem.wait_until(word, pyshmem.CMP_EQ, 0.0)


# ---- fence and quiet -----------------------------------------------------------------------------


def test_fence_orders_data_before_its_flag(job, right, left, heap):
    rounds = 200
    data, flag = pyshmem.zeros(32, np.int64, heap=heap), pyshmem.zeros(1, np.int64, heap=heap)
    seen = pyshmem.zeros(1, np.int64)
    source = np.empty(32, np.int64)
    for i in range(1, rounds + 1):
        source[:] = i * 10 + job.my_pe
        pyshmem.put_nbi(data, source.copy(), right)
        pyshmem.fence()
        pyshmem.atomic_set(flag, i, right)
        pyshmem.wait_until(flag, pyshmem.CMP_GE, i)
        assert (pyshmem.to_numpy(data) == i * 10 + left).all()
        pyshmem.quiet()
        pyshmem.atomic_set(seen, i, left)
        pyshmem.wait_until(seen, pyshmem.CMP_GE, i)


def test_quiet_completes_nbi_copies_whose_arrays_are_gone(job, right, left, heap):
    dest = pyshmem.zeros((20, 1000), heap=heap)
    for i in range(20):
        pyshmem.put_nbi(dest[i], np.full(1000, i + 100.0 * job.my_pe), right)
    pyshmem.CTX_DEFAULT.quiet()
    back = np.zeros((20, 1000))
    pyshmem.get_nbi(back, dest, right)
    pyshmem.quiet()
    expected = np.arange(20.0)[:, None] + 100 * job.my_pe
    assert (back == expected).all()
    pyshmem.barrier_all()
    assert (pyshmem.to_numpy(dest) == expected + 100 * (left - job.my_pe)).all()


def test_barrier_completes_nbi_copies(job, right, left, heap, show):
    dest = pyshmem.zeros(5000, heap=heap)
    pyshmem.put_nbi(dest, np.full(5000, 1.0 + job.my_pe), right, ctx=pyshmem.CTX_DEFAULT)
    assert (show(dest) == 1.0 + left).all()


def test_sync_shows_stores_to_ones_own_memory(job, right):
    rounds = 100
    mine = pyshmem.zeros(1, np.int64)
    theirs = pyshmem.ptr(mine, right)
    for i in range(rounds):
        mine[0] = i
        pyshmem.sync_all()
        assert theirs is None or theirs[0] == i  # None: on another host
        pyshmem.sync_all()
