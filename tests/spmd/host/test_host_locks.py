# SPDX-License-Identifier: BSD-3-Clause
"""Locks: one at a time, first come, first served; what the holder wrote is there for the next."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import pyshmem


def test_a_lock_protects_a_counter(job, make):
    lock, counter, rounds = pyshmem.Lock(), make(np.zeros(1, int)), 40
    for _ in range(rounds):
        with lock:
            pyshmem.p(counter, pyshmem.g(counter, 0) + 1, 0)
    pyshmem.barrier_all()
    assert pyshmem.g(counter, 0) == rounds * job.n_pes
    assert (lock.word == 0).all()


def test_clear_completes_what_was_put(job, make):
    lock, box = make(np.zeros(1, np.int64)), make(np.zeros(200, int))
    for _ in range(20):
        pyshmem.set_lock(lock)
        seen = np.zeros(200, int)
        pyshmem.get(seen, box, job.n_pes - 1)
        assert (seen == seen[0]).all()
        pyshmem.put_nbi(box, seen + 1, job.n_pes - 1)
        pyshmem.clear_lock(lock)
    pyshmem.barrier_all()
    assert pyshmem.g(box, job.n_pes - 1) == 20 * job.n_pes


def test_test_lock_does_not_wait(job):
    lock = pyshmem.Lock()
    if job.my_pe == 0:
        assert lock.test() is True
    pyshmem.barrier_all()
    if job.my_pe:
        assert pyshmem.test_lock(lock.word) is False
    pyshmem.barrier_all()
    if job.my_pe == 0:
        lock.clear()
    pyshmem.barrier_all()
    if job.my_pe == job.n_pes - 1:
        assert pyshmem.test_lock(lock.word)
        lock.clear()


def test_a_lock_of_another_pe_cannot_be_cleared(job):
    lock = pyshmem.Lock()
    with pytest.raises((ValueError, pyshmem.ShmemError)):
        lock.clear()
    pyshmem.barrier_all()
    if job.my_pe == 0:
        lock.set()
    pyshmem.barrier_all()
    if job.my_pe:
        with pytest.raises((ValueError, pyshmem.ShmemError)):
            lock.clear()
    else:
        with pytest.raises((ValueError, pyshmem.ShmemError)):
            lock.set()
    pyshmem.barrier_all()
    if job.my_pe == 0:
        lock.clear()


def test_several_locks_at_a_time(job, make):
    locks, totals = make(np.zeros(3, np.int64)), make(np.zeros(3, int))
    for i in range(30):
        which = (i + job.my_pe) % 3
        pyshmem.set_lock(locks[which:])
        pyshmem.p(totals[which:], pyshmem.g(totals[which:], 0) + 1, 0)
        pyshmem.clear_lock(locks[which:])
    pyshmem.barrier_all()
    assert sum(pyshmem.g(totals[i:], 0) for i in range(3)) == 30 * job.n_pes


def test_mistakes(job):
    with pytest.raises(TypeError, match="lock has dtype int32; locks are int64"):
        pyshmem.set_lock(pyshmem.zeros(1, np.int32))
    for routine in (pyshmem.set_lock, pyshmem.test_lock, pyshmem.clear_lock):
        with pytest.raises(ValueError, match="not on a symmetric heap"):
            routine(np.zeros(1, np.int64))


def test_threads_of_a_pe_that_take_one_lock_have_it_one_at_a_time_or_are_told(job, make):
    lock, counter, taken = pyshmem.Lock(), make(np.zeros(1, int)), make(np.zeros(1, int))

    def take():
        for turn in range(100):
            try:
                if turn % 4:
                    lock.set()
                elif not lock.test():
                    continue
            except pyshmem.ShmemError as error:
                if "holds the lock already" not in str(error):
                    raise
                continue
            pyshmem.p(counter, pyshmem.g(counter, 0) + 1, 0)
            lock.clear()
            pyshmem.atomic_inc(taken, 0)

    with ThreadPoolExecutor(3) as threads:
        for one in [threads.submit(take) for _ in range(3)]:
            one.result()
    pyshmem.barrier_all()
    assert pyshmem.g(counter, 0) == pyshmem.g(taken, 0) > 0
    assert (lock.word == 0).all()
