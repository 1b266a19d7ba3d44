# SPDX-License-Identifier: BSD-3-Clause
"""What programs drop without ending it: teams, contexts, sources of non-blocking operations."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
import warnings
import weakref

import numpy as np
import pytest

import pyshmem
from pyshmem import TEAM_WORLD, Context
from pyshmem._core.library import lib
from pyshmem.host.collectives import requests
from pyshmem.host.teams.contexts import CTX_DEFAULT


@pytest.fixture(autouse=True)
def _all_together():
    pyshmem.barrier_all()
    yield
    pyshmem.barrier_all()


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_dropped_teams_make_room_for_new_ones(job):
    for round_ in range(200):
        team = TEAM_WORLD.split(job.my_pe % 2)
        team.sync()
        if round_ % 3 == 0:
            inner = team.split(0)
            inner.sync()
            del inner
        del team
        gc.collect() if round_ % 50 == 0 else None


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_dropped_team_stays_while_one_of_its_pes_has_it(job):
    team = TEAM_WORLD.split(0)
    held = team if job.my_pe == 0 else None
    slots = []
    del team
    for _ in range(70):  # more than there are slots
        slots.append(TEAM_WORLD.split(0).n_pes())
    assert slots == [job.n_pes] * 70
    if held is not None:
        assert held.n_pes() == job.n_pes
    del held
    pyshmem.drain()


def test_a_dropped_team_and_context_warn(job):
    team = TEAM_WORLD.split(0)
    context = Context()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del team, context
        gc.collect()
    assert [w.category for w in caught] == [ResourceWarning] * 2
    assert all("was dropped; destroy it" in str(w.message) for w in caught)
    pyshmem.drain()


def test_ended_teams_and_contexts_do_not_warn(job):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with TEAM_WORLD.split(0), Context():
            pass
        gc.collect()


def test_sources_are_let_go_when_nothing_is_outstanding(job, make, right):
    dest, word = make(np.zeros(4, np.int64)), pyshmem.new_signal()
    pyshmem.quiet()
    source = np.arange(4)
    gone = weakref.ref(source)
    for _ in range(1000):
        pyshmem.put_signal_nbi(dest, source, word, 1, pyshmem.SIGNAL_ADD, right)
    if not job.checks:
        assert bool(CTX_DEFAULT._kept) == bool(lib.ishmemx_outstanding())
    if not lib.ishmemx_outstanding():
        del source
        assert gone() is None
    pyshmem.quiet()
    assert not CTX_DEFAULT._kept
    assert not lib.ishmemx_outstanding()


def test_a_destructor_moves_no_requests_on(job, make, monkeypatch):
    def moved(*_):
        raise AssertionError("a destructor moved requests on")

    dest, source = make(np.zeros(4)), make(np.ones(4))
    request = pyshmem.sum_reduce_nb(dest, source)
    with monkeypatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setattr(requests, "lib", _Watched(requests.lib, moved))
        request.__del__()
    request.wait()


class _Watched:
    """The library, with the routine that moves requests on replaced."""

    def __init__(self, library, moved):
        self._library = library
        self.ishmemx_request_test = moved

    def __getattr__(self, name):
        return getattr(self._library, name)


def test_threads_may_drop_requests_at_once(job):
    n = 100

    def drop(_):
        for _ in range(n):
            requests._dropped.append(requests._Held(0, (), ""))
            requests._forget_completed()

    threads = [threading.Thread(target=drop, args=(k,)) for k in range(3)]
    requests._forget_completed()
    before = len(requests._dropped)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(requests._dropped) == before + 3 * n  # a null handle is never complete
    for _ in range(3 * n):
        requests._dropped.pop()


def test_a_copy_of_a_handle_that_is_dropped_ends_nothing(job):
    array = pyshmem.ones(2)
    handles = (
        TEAM_WORLD.split(0), Context(), pyshmem.sum_reduce_nb(array, array), pyshmem.Lock(),
        pyshmem.streams.Graph(),
    )  # fmt: skip
    for handle in handles:
        with pytest.raises(TypeError, match="is of this process and cannot be pickled"):
            pickle.dumps(handle)
        held, deep = copy.copy(handle), copy.deepcopy([handle])
        assert held is deep[0] is handle
        del held, deep
    gc.collect()
    pyshmem.drain()
    team, context, request, lock = handles[:4]
    request.wait()
    team.sync()
    with lock:
        pyshmem.put(array, np.ones(2), job.my_pe, ctx=context)
    context.destroy()
    team.destroy()


@pytest.mark.parametrize("predefined", [TEAM_WORLD, pyshmem.TEAM_NODE, CTX_DEFAULT])
def test_what_is_predefined_is_the_same_after_copying_and_pickling(predefined):
    assert copy.deepcopy(predefined) is predefined
    assert pickle.loads(pickle.dumps(predefined)) is predefined


def test_copies_of_symmetric_arrays_are_plain_ones():
    array = pyshmem.ones(2)
    for made in (
        array.copy(),
        copy.copy(array),
        copy.deepcopy(array),
        pickle.loads(pickle.dumps(array)),
    ):
        assert type(made) is np.ndarray
        assert (made == 1).all()
        assert not np.shares_memory(made, array)


@pytest.mark.parametrize("signals", [False, True], ids=["put", "put_signal"])
def test_a_source_changed_before_quiet_is_told_in_checking_mode(
    job, checking, make, right, signals
):
    dest, word, source = make(np.zeros(4, np.int64)), pyshmem.new_signal(), np.arange(6)

    def put(array):
        if signals:
            pyshmem.put_signal_nbi(dest, array, word, 1, pyshmem.SIGNAL_ADD, right, nelems=4)
        else:
            pyshmem.put_nbi(dest, array, right, nelems=4)

    put(source)
    source[4] = 7  # which the put does not read
    pyshmem.quiet()
    put(source)
    source[3] = 7
    with pytest.raises(ValueError, match=f"put to PE {right} was changed before quiet"):
        pyshmem.quiet()
    pyshmem.quiet()  # it is complete all the same
    put(np.ones(4, np.int64))
    pyshmem.barrier_all()
