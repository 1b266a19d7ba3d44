# SPDX-License-Identifier: BSD-3-Clause
"""Signals, waits and meetings, from Triton kernels."""

from __future__ import annotations

import numpy as np
import pytest
import triton
import triton.language as tl

import pyshmem
import pyshmem.triton as shmem


@triton.jit
def pass_on(dest, source, copy, sig, value, sig_op, ctx, NBI: tl.constexpr, B: tl.constexpr):
    right = (shmem.my_pe(ctx) + 1) % shmem.n_pes(ctx)
    offs = tl.arange(0, B)
    if NBI:
        shmem.put_signal_nbi(dest + offs, source + offs, sig, value, sig_op, right, ctx)
    else:
        shmem.put_signal(dest + offs, source + offs, sig, value, sig_op, right, ctx)
    seen = shmem.signal_wait_until(sig, shmem.CMP_EQ, value, ctx)
    tl.store(copy + offs, tl.load(dest + offs) * (seen == value).to(tl.int32))


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
@pytest.mark.parametrize("sig_op", [0, 1])
@pytest.mark.parametrize("nbi", [False, True])
def test_whoever_sees_the_signal_sees_the_data(job, place, show, ctx, dtype, sig_op, nbi):
    left = (job.my_pe - 1) % job.n_pes
    source = place(np.arange(512, dtype=np.int32) + 1000 * job.my_pe)
    dest, copy = place(np.zeros(512, np.int32)), place(np.zeros(512, np.int32))
    sig = place(np.zeros(1, dtype))
    pyshmem.barrier_all()
    pass_on[(1,)](dest, source, copy, sig, 7, sig_op, ctx, NBI=nbi, B=512)
    assert (show(copy) == np.arange(512) + 1000 * left).all()


@triton.jit
def later_program_answers(words, ctx):
    """Program 0 waits for the last one, which the interpreter would run behind it."""
    last = tl.num_programs(0) - 1
    if tl.program_id(0) == 0:
        shmem.signal_wait_until(words, shmem.CMP_GE, tl.num_programs(0) - 1, ctx)
        tl.store(words + 1, shmem.signal_fetch(words, ctx) + 100)
    else:
        shmem.signal_op(words, 1, shmem.SIGNAL_ADD, shmem.my_pe(ctx), ctx, sem="relaxed")
        if tl.program_id(0) == last:
            shmem.signal_wait_until(words + 1, shmem.CMP_NE, 0, ctx)
            tl.store(words + 2, 1)


def test_programs_wait_for_each_other(job, place, show, ctx):
    words = place(np.zeros(3, np.int64))
    later_program_answers[(5,)](words, ctx)
    assert show(words).tolist() == [4, 104, 1]


@triton.jit
def compares(word, found, value, ctx, CMP: tl.constexpr):
    tl.store(found, shmem.test(word, CMP, value, ctx).to(tl.int32))
    if shmem.test(word, CMP, value, ctx):
        tl.store(found + 1, shmem.wait_until(word, CMP, value, ctx).to(tl.int32))


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "uint64"])
def test_words_compare_with_their_sign(job, place, show, ctx, dtype):
    meanings = ("__eq__", "__ne__", "__gt__", "__ge__", "__lt__", "__le__")
    for number, meaning in enumerate(meanings, 1):
        for value in (4, 5, 6):
            word = place(np.array([-5 if dtype.startswith("int") else 5], dtype))
            wanted = -value if dtype.startswith("int") else value
            found = place(np.array([7, 0], np.int32))
            compares[(1,)](word, found, wanted, ctx, CMP=number)
            holds = bool(getattr(int(show(word)[0]), meaning)(wanted))
            assert show(found).tolist() == [holds, int(show(word)[0]) * holds]


@triton.jit
def collect_signals(words, found, ctx):
    me, n = shmem.my_pe(ctx), shmem.n_pes(ctx)
    for pe in range(n):
        shmem.signal_op(words + me, me + 1, shmem.SIGNAL_SET, pe, ctx, "relaxed")
    any_of = shmem.wait_until_any(words, n, shmem.CMP_NE, 0, ctx)
    tl.store(found, (any_of >= 0) & (any_of < n))
    shmem.wait_until_all(words, n, shmem.CMP_GT, 0, ctx)
    tl.store(found + 1, shmem.wait_until_any(words, n, shmem.CMP_EQ, n, ctx))


def test_waiting_for_any_and_for_all(job, place, show, ctx):
    words, found = place(np.zeros(job.n_pes, np.int64)), place(np.zeros(2, np.int64))
    pyshmem.barrier_all()
    collect_signals[(1,)](words, found, ctx)
    assert show(found).tolist() == [1, job.n_pes - 1]
    assert show(words).tolist() == list(range(1, job.n_pes + 1))


@triton.jit
def meet_and_look(slots, wrong, rounds, team, ctx, B: tl.constexpr):
    """Everybody writes the round's number to all, meets, and finds everybody's."""
    me, n = shmem.my_pe(ctx), shmem.n_pes(ctx)
    lanes = tl.arange(0, B)
    for turn in range(1, rounds + 1):
        for pe in range(n):
            shmem.store(slots + me, turn, pe, ctx)
        shmem.barrier(ctx, team)
        seen = tl.load(slots + lanes, mask=lanes < n, other=turn, volatile=True)
        tl.atomic_add(wrong, tl.sum((seen != turn).to(tl.int32)))
        shmem.sync(ctx)


def test_a_barrier_of_programs_completes_stores(job, place, show, ctx):
    slots, wrong = place(np.zeros(job.n_pes, np.int32)), place(np.zeros(1, np.int32))
    pyshmem.barrier_all()
    meet_and_look[(1,)](slots, wrong, 5, 0, ctx, B=8)
    assert show(wrong)[0] == 0
    assert (show(slots) == 5).all()


@triton.jit
def meet_as_grids(counts, wrong, rounds, ctx):
    right = (shmem.my_pe(ctx) + 1) % shmem.n_pes(ctx)
    programs = tl.num_programs(0) * tl.num_programs(1)
    for turn in range(1, rounds + 1):
        shmem.atomic_add(counts, 1, right, ctx, sem="relaxed")
        shmem.barrier_grid(ctx)
        tl.atomic_add(wrong, (tl.load(counts, volatile=True) != turn * programs).to(tl.int32))
        shmem.sync_grid(ctx)


@pytest.mark.parametrize("grid", [(1,), (3, 2)])
def test_a_barrier_of_grids(job, place, show, ctx, grid):
    counts, wrong = place(np.zeros(1, np.int64)), place(np.zeros(1, np.int32))
    pyshmem.barrier_all()
    meet_as_grids[grid](counts, wrong, 3, ctx)
    assert show(wrong)[0] == 0
    assert show(counts)[0] == 3 * np.prod(grid)


def test_teams_meet_by_themselves(job, place, show, ctx):
    evens = pyshmem.TEAM_WORLD.split_strided(0, 2, (job.n_pes + 1) // 2)
    turns = place(np.zeros(1, np.int32))
    if job.my_pe % 2 == 0:
        meet_team[(1,)](turns, shmem.team_number(evens), ctx)
        assert show(turns)[0] == 20
        evens.destroy()


@triton.jit
def meet_team(turns, team, ctx):
    for _ in range(20):
        shmem.sync(ctx, team)
        tl.store(turns, tl.load(turns) + 1)


@triton.jit
def choose(word, found, cmp, sig_op, ctx, WHAT: tl.constexpr, CMP: tl.constexpr):
    """One of the functions that take a comparison or a signal operation; the others are compiled out."""
    if WHAT == "signal_wait_until":
        shmem.signal_wait_until(word, CMP, 0, ctx)
    elif WHAT == "wait_until":
        shmem.wait_until(word, CMP, 0, ctx)
    elif WHAT == "wait_until_all":
        shmem.wait_until_all(word, 1, CMP, 0, ctx)
    elif WHAT == "wait_until_any":
        shmem.wait_until_any(word, 1, CMP, 0, ctx)
    elif WHAT == "wait_until, cmp":
        shmem.wait_until(word, cmp, 0, ctx)
    elif WHAT == "test":
        tl.store(found, shmem.test(word, CMP, 0, ctx).to(tl.int64))
    elif WHAT == "test, cmp":
        tl.store(found, shmem.test(word, cmp, 0, ctx).to(tl.int64))
    elif WHAT == "signal_op, sig_op":
        shmem.signal_op(word, 5, sig_op, shmem.my_pe(ctx), ctx)
    elif WHAT == "put_signal, sig_op":
        shmem.put_signal(found, word + 1, word, 5, sig_op, shmem.my_pe(ctx), ctx)
    else:
        shmem.signal_op(word, 5, CMP, shmem.my_pe(ctx), ctx)


@pytest.mark.parametrize("cmp", [0, 7, -1])
@pytest.mark.parametrize(
    "what", ["signal_wait_until", "wait_until", "wait_until_all", "wait_until_any", "test"]
)
def test_a_constant_that_is_no_comparison_is_refused(job, place, ctx, refusal, what, cmp):
    word = place(np.zeros(2, np.int64))
    refused = refusal(lambda: choose[(1,)](word, word, 1, 0, ctx, WHAT=what, CMP=cmp))
    assert f"cmp is {cmp}; it is CMP_EQ, CMP_NE" in refused


@pytest.mark.parametrize("cmp", [0, 7, -1])
def test_a_value_that_is_no_comparison_is_a_fault_of_test(job, place, show, ctx, fault, cmp):
    word, found = place(np.zeros(2, np.int64)), place(np.full(1, 9, np.int64))
    message = fault(lambda: choose[(1,)](word, found, cmp, 0, ctx, WHAT="test, cmp", CMP=1))
    assert f"device routine test: cmp is {cmp}, not one of CMP_EQ (1)" in message
    choose[(1,)](word, found, int(shmem.CMP_LE), 0, ctx, WHAT="test, cmp", CMP=1)
    assert show(found).tolist() == [1]


def test_a_wait_s_comparison_is_a_constant(job, place, ctx, refusal):
    word = place(np.zeros(2, np.int64))
    # Not 1: Triton takes an argument of 1 for a constant.
    refused = refusal(lambda: choose[(1,)](word, word, 2, 0, ctx, WHAT="wait_until, cmp", CMP=1))
    assert "cmp of a wait is a constant" in refused


@pytest.mark.parametrize("routine", ["signal_op", "put_signal"])
def test_a_value_that_is_no_signal_operation_is_a_fault(
    job, place, show, ctx, fault, refusal, routine
):
    word, found = place(np.array([0, 3])), place(np.zeros(1, np.int64))
    what = f"{routine}, sig_op"
    message = fault(lambda: choose[(1,)](word, found, 1, 2, ctx, WHAT=what, CMP=1))
    assert f"device routine {routine}: sig_op is 2, neither SIGNAL_SET (0)" in message
    assert show(word).tolist() == [0, 3]
    assert show(found).tolist() == [0]
    refused = refusal(lambda: choose[(1,)](word, found, 1, 0, ctx, WHAT="signal_op", CMP=2))
    assert "sig_op is 2; it is SIGNAL_SET or SIGNAL_ADD" in refused


@triton.jit
def not_a_word(words, ctx, WHAT: tl.constexpr):
    if WHAT == "wait":
        shmem.wait_until(words, shmem.CMP_EQ, 0, ctx)
    elif WHAT == "test":
        shmem.test(words, shmem.CMP_EQ, 0, ctx)
    elif WHAT == "wait tile":
        shmem.wait_until(words + tl.arange(0, 2), shmem.CMP_EQ, 0, ctx)
    elif WHAT == "signal tile":
        shmem.signal_op(words + tl.arange(0, 2), 1, shmem.SIGNAL_SET, 0, ctx)
    else:
        shmem.signal_op(words, 1, shmem.SIGNAL_SET, 0, ctx)


@pytest.mark.parametrize(
    ("what", "dtype", "text"),
    [
        ("wait", "float32", "integers of 32 or 64 bits"),
        ("wait", "float64", "integers of 32 or 64 bits"),
        ("test", "int16", "integers of 32 or 64 bits"),
        ("wait tile", "int64", "not a tensor of pointers"),
        ("signal tile", "int64", "not a tensor of pointers"),
        ("signal", "float64", "a signal is a 64-bit integer"),
    ],
)
def test_signals_and_waits_are_of_one_integer(job, place, ctx, refusal, what, dtype, text):
    words = place(np.zeros(2, dtype))
    refused = refusal(lambda: not_a_word[(1,)](words, ctx, WHAT=what))
    assert text in refused


@triton.jit
def any_of(words, found, nelems, ctx):
    tl.store(found, shmem.wait_until_any(words, nelems, shmem.CMP_EQ, 5, ctx))


def test_nobody_waits_for_any_of_no_words(job, place, show, ctx):
    words, found = place(np.zeros(2, np.int64)), place(np.zeros(1, np.int64))
    any_of[(1,)](words, found, 0, ctx)
    assert show(found)[0] == -1


@triton.jit
def swap(word, ctx, WHAT: tl.constexpr):
    """One of the functions with a comparison or a signal operation in another argument's place."""
    if WHAT == "signal_wait_until":
        shmem.signal_wait_until(word, 0, shmem.CMP_GE, ctx)
    elif WHAT == "wait_until_all":
        shmem.wait_until_all(word, 1, 1, shmem.CMP_GE, ctx)
    elif WHAT == "test":
        shmem.test(word, 1, shmem.CMP_GE, ctx)
    elif WHAT == "signal operation":
        shmem.wait_until(word, shmem.SIGNAL_ADD, 0, ctx)
    elif WHAT == "signal":
        shmem.put_signal(word, word + 1, word, shmem.SIGNAL_ADD, 1, 0, ctx)
    elif WHAT == "pe":
        shmem.signal_op(word, 1, 1, shmem.SIGNAL_ADD, ctx)
    else:
        shmem.put(word, word + 1, shmem.CMP_GE, ctx)


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ("signal_wait_until", "cmp_value is CMP_GE, which belongs to cmp"),
        ("wait_until_all", "cmp_value is CMP_GE, which belongs to cmp"),
        ("test", "cmp_value is CMP_GE, which belongs to cmp"),
        ("signal operation", "cmp is SIGNAL_ADD, which belongs to sig_op"),
        ("signal", "signal is SIGNAL_ADD, which belongs to sig_op"),
        ("pe", "pe is SIGNAL_ADD, which belongs to sig_op"),
        ("put", "pe is CMP_GE, which belongs to cmp"),
    ],
)
def test_constants_that_are_swapped_are_told(job, place, ctx, refusal, what, told):
    assert told in refusal(lambda: swap[(1,)](place(np.zeros(2, np.int64)), ctx, WHAT=what))
