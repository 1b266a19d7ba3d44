# SPDX-License-Identifier: BSD-3-Clause
"""Where programs and libraries most often read the specification wrongly: see docs/semantics.md."""

from __future__ import annotations

import gc
import sys
import threading
import time

import numpy as np
import pytest
from reference import pattern

import pyshmem
from pyshmem import TEAM_SHARED, TEAM_WORLD, Context, TeamConfig
from pyshmem._core.library import lib

# ---- completion ----------------------------------------------------------------------------------


@pytest.mark.parametrize("nelems", [1, 40, 100_000])
def test_the_source_may_change_as_soon_as_a_put_returns(job, heap, right, left, nelems):
    boxes = pyshmem.zeros((3, nelems), np.int64, heap=heap)
    spaced = pyshmem.zeros(2 * nelems, np.int64, heap=heap)
    word = pyshmem.new_signal(heap=heap)
    source = np.empty(nelems, np.int64)
    source[:] = job.my_pe
    pyshmem.put(boxes[0], source, right)
    source[:] = 100 + job.my_pe
    pyshmem.put_signal(boxes[1], source, word, 1, pyshmem.SIGNAL_SET, right)
    source[:] = 200 + job.my_pe
    pyshmem.iput(spaced, source, right, dst=2, nelems=nelems)
    source[:] = 300 + job.my_pe
    pyshmem.p(boxes[2], source[0], right)
    source[:] = -1
    pyshmem.barrier_all()
    got = pyshmem.to_numpy(boxes)
    assert (got[0] == left).all()
    assert (got[1] == 100 + left).all()
    assert got[2, 0] == 300 + left
    assert (pyshmem.to_numpy(spaced)[::2] == 200 + left).all()


def test_a_barrier_completes_every_context(job, heap, right, left):
    # The standard asks for the default context only.
    box = pyshmem.zeros((3, 5000), heap=heap)
    contexts = [Context(), Context(pyshmem.CTX_PRIVATE), TEAM_WORLD.create_ctx()]
    for i, ctx in enumerate(contexts):
        pyshmem.put_nbi(box[i], np.full(5000, i + 10.0 * job.my_pe), right, ctx=ctx)
    pyshmem.barrier_all()
    assert (pyshmem.to_numpy(box) == np.arange(3.0)[:, None] + 10 * left).all()
    for ctx in contexts:
        ctx.destroy()


def test_operations_progress_while_their_target_computes(job, make):
    word, count, data = make(np.zeros(1, int)), make(np.zeros(1, int)), make(np.arange(1000))
    if lib.ishmemx_several_hosts():
        pytest.skip("between hosts progress is the OpenSHMEM library's")
    pyshmem.barrier_all()
    if job.my_pe == 0:
        # No routine is called, and no other thread gets the interpreter.
        before, deadline = sys.getswitchinterval(), time.monotonic() + 20
        sys.setswitchinterval(60)
        try:
            while word[0] < job.n_pes - 1 and time.monotonic() < deadline:
                pass
        finally:
            sys.setswitchinterval(before)
        assert word[0] == job.n_pes - 1
        assert count[0] == 2 * (job.n_pes - 1)
    else:
        got = np.empty(1000, int)
        pyshmem.get_nbi(got, data, 0)
        pyshmem.put_nbi(data[job.my_pe :], np.array([job.my_pe]), 0)
        pyshmem.atomic_add(count, 2, 0)
        pyshmem.quiet()
        assert (got == np.arange(1000)).all()
        pyshmem.atomic_inc(word, 0)


# ---- atomics -------------------------------------------------------------------------------------


def test_atomics_of_all_contexts_and_teams_meet_in_one_word(job, heap, make):
    count = make(np.zeros(1, int), heap)
    pyshmem.barrier_all()
    contexts = [None, TEAM_WORLD.create_ctx(), TEAM_SHARED.create_ctx(), Context()]
    for _ in range(100):
        for ctx in contexts:
            team = TEAM_WORLD if ctx is None else ctx.get_team()
            target = TEAM_WORLD.translate_pe(0, team)
            if target >= 0:  # PE 0 may be on another host
                pyshmem.atomic_inc(count, target, ctx=ctx)
            else:
                pyshmem.atomic_inc(count, 0)
    pyshmem.barrier_all()
    assert pyshmem.atomic_fetch(count, 0) == 400 * job.n_pes
    for ctx in contexts[1:]:
        ctx.destroy()


# ---- teams and contexts --------------------------------------------------------------------------


def test_team_shared_is_who_loads_and_stores_on_every_heap(job):
    heaps = ["host"] if job.device == "none" else ["host", "device"]
    words = [pyshmem.zeros(1, heap=heap) for heap in heaps]
    shared = TEAM_SHARED.pes()
    assert job.my_pe in shared
    for pe in shared:
        assert all(pyshmem.ptr(word, pe) is not None for word in words)
    for pe in set(range(job.n_pes)) - set(shared):
        assert any(pyshmem.ptr(word, pe) is None for word in words)


def test_num_contexts_is_a_wish_and_no_limit(job, right):
    box = pyshmem.zeros(6, int)
    with TEAM_WORLD.split_strided(0, 1, job.n_pes, config=TeamConfig(num_contexts=1)) as team:
        contexts = [team.create_ctx() for _ in range(6)]
        for i, ctx in enumerate(contexts):
            pyshmem.p(box[i:], i, right, ctx=ctx)
            ctx.destroy()
        pyshmem.barrier_all()
    assert box.tolist() == list(range(6))


def test_two_threads_in_one_teams_collective_are_told(job):
    if job.n_pes == 1:
        pytest.skip("one PE waits for nobody")
    team, refused = TEAM_WORLD.split_strided(0, 1, job.n_pes), []

    def meet():
        try:
            team.sync()
        except pyshmem.ShmemError as error:
            refused.append(str(error))
            pyshmem.barrier_all()  # the others enter the sync only now

    if job.my_pe == 0:
        other = threading.Thread(target=meet)
        other.start()
        meet()
        other.join()
        assert len(refused) == 1
        assert "thread" in refused[0]
    else:
        pyshmem.barrier_all()
        team.sync()
    team.sync()
    team.destroy()


def test_a_private_context_is_not_ended_by_the_collector(job, right, monkeypatch):
    complaints = []
    monkeypatch.setattr(sys, "unraisablehook", complaints.append)
    box = pyshmem.zeros(1, int)
    team = TEAM_WORLD.split_strided(0, 1, job.n_pes)

    def use():
        ctx = team.create_ctx(pyshmem.CTX_PRIVATE)
        pyshmem.atomic_inc(box, right, ctx=ctx)
        cycle = [ctx]
        cycle.append(cycle)

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    gc.collect()
    assert not complaints
    pyshmem.barrier_all()
    assert box[0] == 1
    team.destroy()


# ---- addresses -----------------------------------------------------------------------------------


def test_what_ptr_returned_is_no_symmetric_address(job, right, make):
    array = make(pattern(8, "int64", job.my_pe))
    window = pyshmem.ptr(array, right)
    if job.n_pes == 1 or any(pyshmem.ptr(array, pe) is None for pe in range(job.n_pes)):
        pytest.skip("some PE's memory is not mapped, or there is no other PE")
    word = pyshmem.new_signal()
    for use in (
        lambda: pyshmem.put(window, np.ones(8, int), right),
        lambda: pyshmem.get(np.ones(8, int), window, right),
        lambda: pyshmem.atomic_inc(window, right),
        lambda: pyshmem.put_signal(window, array, word, 1, pyshmem.SIGNAL_SET, right),
        lambda: pyshmem.sum_reduce(window, array),
        lambda: pyshmem.wait_until(window, pyshmem.CMP_EQ, 0),
        lambda: pyshmem.ptr(window, right),
    ):
        with pytest.raises(ValueError, match=r"is what ptr\(\) returned"):
            use()
    copy = pyshmem.zeros(8, int)
    pyshmem.put(copy, window, job.my_pe)  # as memory of the caller it will do
    assert (copy == pattern(8, "int64", right)).all()


def test_a_signal_inside_its_data_is_refused_in_checking_mode(job, right, checking):
    words = pyshmem.new_signal(4)
    for inside in (words, words[3:]):
        with pytest.raises((ValueError, pyshmem.MismatchError), match="overlap"):
            pyshmem.put_signal(words, np.ones(4, np.uint64), inside, 1, pyshmem.SIGNAL_SET, right)
    pyshmem.barrier_all()
    assert not words.any()


# ---- nothing at all ------------------------------------------------------------------------------


def test_no_elements_move_nothing_and_are_no_error(job, heap, make, right):
    full, none = make(np.ones(4, int), heap), pyshmem.zeros(0, int, heap=heap)
    for routine in (pyshmem.put, pyshmem.put_nbi, pyshmem.get, pyshmem.get_nbi):
        routine(none, none, right)
        routine(full, full, right, nelems=0)
    for routine in (pyshmem.iput, pyshmem.iget):
        routine(full, full, right, dst=2, nelems=0)
    for routine in (
        pyshmem.fcollect, pyshmem.collect, pyshmem.alltoall, pyshmem.sum_reduce,
        pyshmem.sum_inscan, pyshmem.sum_exscan,
    ):  # fmt: skip
        routine(none, none)
    pyshmem.broadcast(none, none, 0)
    pyshmem.barrier_all()
    assert pyshmem.to_numpy(full).tolist() == [1] * 4


def test_an_array_without_elements_is_made_by_one_pe_alone(job, heap):
    # A size of 0 is no allocation: nobody waits, and nobody is missed.
    if job.my_pe == job.n_pes - 1:
        for _ in range(3):
            pyshmem.free(pyshmem.zeros((2, 0), heap=heap))
    pyshmem.barrier_all()
    assert pyshmem.ones(2, heap=heap).size == 2


# ---- locks ---------------------------------------------------------------------------------------


def test_a_lock_is_given_in_the_order_of_asking(job, make):
    lock, turn, order = pyshmem.Lock(), make(np.zeros(1, int)), make(np.zeros(1, int))
    taken = make(np.full(job.n_pes, -1))

    def tail():
        # The low half of the lock's word, on one of the PEs: who asked last.
        return [pyshmem.atomic_fetch(lock.word, pe) & 0xFFFFFFFF for pe in range(job.n_pes)]

    if job.my_pe == 0:
        lock.set()
        for pe in range(job.n_pes - 1, 0, -1):
            before, deadline = tail(), time.monotonic() + 30
            pyshmem.atomic_set(turn, 1, pe)
            while tail() == before and time.monotonic() < deadline:
                pass
        lock.clear()
    else:
        pyshmem.wait_until(turn, pyshmem.CMP_EQ, 1)
        with lock:
            place = pyshmem.atomic_fetch_inc(order, 0)
            pyshmem.p(taken[place:], job.my_pe, 0)
    pyshmem.barrier_all()
    if job.my_pe == 0:
        assert taken[: job.n_pes - 1].tolist() == list(range(job.n_pes - 1, 0, -1))


def test_a_lock_is_not_taken_twice_by_its_holder(job):
    lock = pyshmem.Lock()
    with lock, pytest.raises(pyshmem.ShmemError, match="holds the lock already"):
        lock.set()
    pyshmem.barrier_all()
    with lock:
        pass
