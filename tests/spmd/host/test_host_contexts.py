# SPDX-License-Identifier: BSD-3-Clause
"""Contexts: PE numbers of their team, completion, options, sessions, and what ends them."""

from __future__ import annotations

import gc
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import pyshmem
from pyshmem import CTX_DEFAULT, TEAM_WORLD, Context
from pyshmem._core import _fast
from pyshmem.host.job import runtime
from pyshmem.host.teams import contexts


@pytest.fixture
def back(job):
    """All PEs, from the last to the first."""
    with TEAM_WORLD.split_strided(job.n_pes - 1, -1, job.n_pes) as team:
        yield team
        pyshmem.barrier_all()


def test_pe_numbers_on_a_context_are_its_teams(job, heap, make, back):
    box, word = make(np.zeros(4, int), heap), pyshmem.new_signal(heap=heap)
    counter = make(np.zeros(1, int), heap)
    me, n = back.my_pe(), job.n_pes
    right, left = (me + 1) % n, (me - 1) % n
    with back.create_ctx() as ctx:
        assert ctx.get_team() is back
        pyshmem.put(box, np.full(3, me), right, ctx=ctx)
        pyshmem.p(box[3:], me, right, ctx=ctx)
        pyshmem.atomic_add(counter, me + 1, right, ctx=ctx)
        ctx.quiet()
        back.sync()
        assert (pyshmem.to_numpy(box) == left).all()
        assert pyshmem.g(box, right, ctx=ctx) == me
        got = np.zeros(4, int)
        pyshmem.get(got, box, right, ctx=ctx)
        assert (got == me).all()
        assert pyshmem.atomic_fetch(counter, right, ctx=ctx) == me + 1
        back.sync()
        pyshmem.put_signal(box, np.full(4, 9), word, 1, pyshmem.SIGNAL_SET, right, ctx=ctx)
        pyshmem.signal_wait_until(word, pyshmem.CMP_EQ, 1)
        assert (pyshmem.to_numpy(box) == 9).all()


def test_a_pe_outside_the_contexts_team_is_refused(job):
    team = TEAM_WORLD.split(job.my_pe)
    box = pyshmem.zeros(1, int)
    with team.create_ctx() as ctx:
        for pe in (-1, 1):
            for use in (
                lambda pe=pe: pyshmem.p(box, 1, pe, ctx=ctx),
                lambda pe=pe: pyshmem.put(box, box.copy(), pe, ctx=ctx),
                lambda pe=pe: pyshmem.atomic_inc(box, pe, ctx=ctx),
                lambda pe=pe: ctx.pe_quiet([pe]),
            ):
                with pytest.raises(ValueError, match=f"{pe} is outside the team of 1 PE"):
                    use()
    team.destroy()
    assert box[0] == 0


@pytest.mark.parametrize(
    "options",
    [0, pyshmem.CTX_SERIALIZED, pyshmem.CTX_PRIVATE, pyshmem.CTX_PRIVATE | pyshmem.CTX_NOSTORE],
)
def test_quiet_completes_what_is_under_way(job, heap, make, right, left, options):
    box, source = make(np.zeros(1000), heap), np.full(1000, float(job.my_pe))
    got = np.zeros(1000)
    with Context(options) as ctx:
        pyshmem.put_nbi(box, source, right, ctx=ctx)
        ctx.fence()
        ctx.quiet()
        pyshmem.sync_all()
        pyshmem.get_nbi(got, box, right, ctx=ctx)
        pyshmem.quiet(ctx)
        assert (got == job.my_pe).all()
    pyshmem.barrier_all()
    assert (pyshmem.to_numpy(box) == left).all()


def test_contexts_are_many(job, make, right):
    box = make(np.zeros(40, int))
    contexts = [Context() for _ in range(40)]
    for i, ctx in enumerate(contexts):
        pyshmem.p(box[i:], i, right, ctx=ctx)
    for ctx in contexts:
        ctx.destroy()
    pyshmem.sync_all()
    assert (box == np.arange(40)).all()


def in_thread(call):
    """What ``call`` raised in another thread."""
    errors = []

    def body():
        try:
            call()
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    return errors[0] if errors else None


def test_a_private_context_is_refused_in_another_thread(job, right):
    box = pyshmem.zeros(2, int)
    with Context(pyshmem.CTX_PRIVATE) as ctx:
        for use in (
            lambda: pyshmem.p(box, 1, right, ctx=ctx), lambda: pyshmem.put(box, box, right, ctx=ctx),
            lambda: pyshmem.atomic_inc(box, right, ctx=ctx), ctx.quiet, ctx.fence, ctx.destroy,
        ):  # fmt: skip
            error = in_thread(use)
            assert isinstance(error, pyshmem.ShmemError)
            assert "private" in str(error)
        pyshmem.p(box, 1, right, ctx=ctx)
    with Context() as shared:
        assert in_thread(lambda: pyshmem.p(box, 2, right, ctx=shared)) is None


def test_wrong_options_are_refused(job):
    with pytest.raises(ValueError, match="options are 64"):
        Context(64)


def test_what_is_no_context_is_named(job):
    box, source, destroyed = pyshmem.zeros(2), np.zeros(2), pyshmem.TEAM_WORLD.create_ctx()
    destroyed.destroy()
    for put in (pyshmem.put, pyshmem.put_nbi):
        with pytest.raises(TypeError, match=r"^ctx is 'x' \(str\), not a context"):
            put(box, source, job.my_pe, ctx="x")
        with pytest.raises(ValueError, match="destroyed, by itself or with its team"):
            put(box, source, job.my_pe, ctx=destroyed)


def test_quiet_and_fence_of_a_destroyed_context_do_nothing(job, right):
    ctx = Context()
    ctx.destroy()
    ctx.destroy()
    assert ctx.get_team() is None
    ctx.quiet()
    ctx.fence()
    box = pyshmem.zeros(1, int)
    for use in (
        lambda: pyshmem.p(box, 1, right, ctx=ctx), lambda: pyshmem.put(box, box, right, ctx=ctx),
        lambda: pyshmem.atomic_inc(box, right, ctx=ctx),
    ):  # fmt: skip
        with pytest.raises((ValueError, pyshmem.ShmemError), match="context"):
            use()


def test_destroy_completes_first_and_the_default_stays(job, make, right, left):
    box = make(np.zeros(1, int))
    ctx = Context()
    pyshmem.put_nbi(box, np.array([job.my_pe + 1]), right, ctx=ctx)
    ctx.destroy()
    pyshmem.sync_all()
    assert box[0] == left + 1
    with pytest.raises(ValueError, match="default context"):
        CTX_DEFAULT.destroy()


def test_team_destroy_ends_its_shareable_contexts(job, right):
    team = TEAM_WORLD.split_strided(0, 1, job.n_pes)
    ctx = team.create_ctx()
    team.destroy()
    assert ctx.get_team() is None
    ctx.destroy()


@pytest.fixture
def never_at_once(monkeypatch):
    """As on a conduit whose operations complete by quiet."""
    monkeypatch.setattr(contexts, "lib", Delayed(contexts.lib))
    _fast.know_job(True)
    yield
    _fast.know_job(runtime.current().checks)


class Delayed:
    """The library, with operations that are outstanding."""

    def __init__(self, library):
        self._library = library

    def ishmemx_outstanding(self):
        return 1

    def __getattr__(self, name):
        return getattr(self._library, name)


def test_a_source_is_kept_until_quiet_of_its_context(job, make, right, never_at_once):
    class Traced(np.ndarray):
        pass

    box = make(np.zeros(3))
    source = np.ones(3).view(Traced)
    watch = weakref.ref(source)
    with Context() as ctx:
        pyshmem.put_nbi(box, source, right, ctx=ctx)
        del source
        pyshmem.quiet()
        gc.collect()
        assert watch() is not None
        ctx.quiet()
        gc.collect()
        assert watch() is None
    pyshmem.barrier_all()


def test_threads_that_complete_at_one_time_keep_what_is_not_complete(
    job, make, right, never_at_once
):
    """A thread's pe_quiet sorts the kept arrays while another one completes them and starts anew."""
    box, source = make(np.zeros(3)), np.ones(3)
    others = ThreadPoolExecutor(1)

    class Target(int):
        """A PE's number that another thread gets in between when it is compared."""

        def __eq__(self, pe):
            others.submit(work).result()
            return int(self) == pe

        __hash__ = int.__hash__

    def work():
        ctx.quiet()
        pyshmem.put_nbi(box, source, right, ctx=ctx)

    with Context() as ctx, others:
        ctx.keep(np.ones(1), Target(right))
        ctx.pe_quiet([right])
        assert [kept for _, kept in ctx._kept if getattr(kept, "held", kept) is source]
    pyshmem.barrier_all()


def test_what_could_not_be_completed_is_kept(job, make, right, never_at_once):
    box, source = make(np.zeros(3)), np.ones(3)
    with Context() as ctx:
        pyshmem.put_nbi(box, source, right, ctx=ctx)
        with pytest.raises(ValueError, match="outside"):
            ctx.pe_quiet([right, job.n_pes])
        assert [kept for _, kept in ctx._kept if getattr(kept, "held", kept) is source]
    pyshmem.barrier_all()


def test_sessions_are_hints(job, make, right, left):
    box = make(np.zeros(3, int))
    with Context() as ctx:
        ctx.session_stop()
        ctx.session_start(pyshmem.CTX_SESSION_BATCH | pyshmem.CTX_SESSION_SAME_AMO, total_ops=3)
        ctx.session_start(0, total_ops=30)
        for i in range(3):
            pyshmem.p(box[i:], job.my_pe, right, ctx=ctx)
        ctx.session_stop()
        ctx.session_stop()
        with ctx.session(pyshmem.CTX_SESSION_BATCH):
            pyshmem.p(box, job.my_pe, right, ctx=ctx)
        with pytest.raises(ValueError, match="session options are 8"):
            ctx.session_start(8)
    pyshmem.sync_all()
    assert (box == left).all()


def test_pe_quiet_lets_go_of_what_it_has_completed(job, make, right, never_at_once):
    dest, others = make(np.zeros(8, np.int64)), (right + 1) % job.n_pes
    kept = len(CTX_DEFAULT._kept)
    pyshmem.put_nbi(dest, np.ones(8, np.int64), right)
    pyshmem.pe_quiet([others] if others != right else [])
    assert len(CTX_DEFAULT._kept) == kept + 1
    pyshmem.pe_quiet([right])
    assert len(CTX_DEFAULT._kept) == kept
    pyshmem.barrier_all()


def test_pe_quiet_completes_for_some_pes(job, make, right, left):
    box, n = make(np.zeros(500)), job.n_pes
    pyshmem.put_nbi(box, np.full(500, 1.0 + job.my_pe), right)
    pyshmem.pe_quiet([])
    pyshmem.pe_quiet([right])
    pyshmem.sync_all()
    assert (box == 1 + left).all()
    pyshmem.pe_quiet(range(n), CTX_DEFAULT)
    with pytest.raises(ValueError, match=f"{n} is outside"):
        pyshmem.pe_quiet([0, n])


def test_threads_with_contexts_of_their_own(job, make, right, left):
    n_threads, rounds = 4, 50
    counters = make(np.zeros(n_threads, int))

    def body(i):
        with Context(pyshmem.CTX_PRIVATE) as ctx:
            for _ in range(rounds):
                pyshmem.atomic_inc(counters[i:], right, ctx=ctx)

    with ThreadPoolExecutor(n_threads) as pool:
        list(pool.map(body, range(n_threads)))
    pyshmem.barrier_all()
    assert (counters == rounds).all()
