# SPDX-License-Identifier: BSD-3-Clause
"""Locks between threads of all PEs' kernels."""

from __future__ import annotations

import numpy as np
import pytest
from numba import cuda
from team_kinds import fault_of

from pyshmem import device as shmem


@cuda.jit
def count(lock, counter, rounds, home):
    """The first thread of every block adds one, by a get and a put that only the lock keeps together."""
    if cuda.threadIdx.x == 0:
        for _ in range(rounds):
            shmem.set_lock(lock)
            shmem.p(counter, shmem.g(counter, home) + 1, home)
            shmem.clear_lock(lock)


@pytest.mark.parametrize(
    "offset", [0, 8, 16]
)  # of the lock: its place chooses the PE that keeps it
def test_a_lock_makes_a_counter_exact(job, place, show, offset):
    locks, counter = place(np.zeros(24, np.int64)), place(np.zeros(1, np.int64))
    home, rounds = job.n_pes - 1, 200 if job.device == "cuda" else 6
    count[3, 32](locks[offset:], counter, rounds, home)
    total = show(counter)[0]
    assert total == (3 * rounds * job.n_pes if job.my_pe == home else 0)


@cuda.jit
def count_by_trying(lock, counter, rounds, home):
    for _ in range(rounds):
        while not shmem.test_lock(lock):
            pass
        shmem.p(counter, shmem.g(counter, home) + 1, home)
        shmem.clear_lock(lock)


def test_trying_in_a_loop_makes_it_exact_too(job, place, show):
    lock, counter = place(np.zeros(1, np.int64)), place(np.zeros(1, np.int64))
    count_by_trying[2, 1](lock, counter, 5, 0)
    assert show(counter)[0] == (10 * job.n_pes if job.my_pe == 0 else 0)


@cuda.jit
def pass_a_box_on(lock, box, seen, torn, rounds, home):
    """What a holder has put is complete for the next one, whatever it left under way."""
    for _ in range(rounds):
        if cuda.threadIdx.x == 0:
            shmem.set_lock(lock)
        cuda.syncthreads()
        shmem.get_work_group(seen, box, home)
        i = cuda.threadIdx.x
        while i < seen.size:
            if seen[i] != seen[0]:
                torn[0] = 1
            i += cuda.blockDim.x
        cuda.syncthreads()
        i = cuda.threadIdx.x
        while i < seen.size:
            seen[i] += 1
            i += cuda.blockDim.x
        shmem.put_nbi_work_group(box, seen, home)
        cuda.syncthreads()
        if cuda.threadIdx.x == 0:
            shmem.clear_lock(lock)
        cuda.syncthreads()


def test_clear_completes_what_the_holder_put(job, place, show):
    lock, torn = place(np.zeros(1, np.int64)), place(np.zeros(1, np.int64))
    box, seen = place(np.zeros(300, np.int64)), place(np.zeros(300, np.int64))
    rounds = 100 if job.device == "cuda" else 5
    pass_a_box_on[1, 64](lock, box, seen, torn, rounds, 0)
    left = show(box)
    assert show(torn)[0] == 0
    assert (left == (rounds * job.n_pes if job.my_pe == 0 else 0)).all()


@cuda.jit
def try_once(lock, got):
    got[0] = shmem.test_lock(lock)


@cuda.jit
def release(lock):
    shmem.clear_lock(lock)


def test_test_lock_does_not_wait(job, place, show):
    lock, got = place(np.zeros(1, np.int64)), place(np.full(1, 7))
    if job.my_pe == 0:
        try_once[1, 1](lock, got)
    assert show(got)[0] == (1 if job.my_pe == 0 else 7)
    if job.my_pe:
        try_once[1, 1](lock, got)
    assert show(got)[0] == (job.my_pe == 0)
    if job.my_pe == 0:
        release[1, 1](lock)
    show(lock)
    if job.my_pe == job.n_pes - 1:
        try_once[1, 1](lock, got)
        release[1, 1](lock)
    assert show(got)[0] == (job.my_pe in (0, job.n_pes - 1))


def test_a_lock_that_nobody_has_cannot_be_cleared(job, place, show):
    lock = place(np.zeros(1, np.int64))
    message = fault_of(lambda: release[1, 1](lock))
    assert "clear_lock: no thread of this PE has the lock" in message
    show(lock)
    count[1, 1](lock, place(np.zeros(1, np.int64)), 2, 0)  # and works as before
    show(lock)


@pytest.mark.parametrize("offset", [0, 8, 16])
def test_only_the_pe_that_has_a_lock_clears_it(job, place, show, offset):
    locks, got = place(np.zeros(24, np.int64)), place(np.zeros(1, np.int64))
    lock, owner = locks[offset:], job.n_pes - 1
    if job.my_pe == owner:
        try_once[1, 1](lock, got)
    show(got)
    if job.my_pe != owner:
        message = fault_of(lambda: release[1, 1](lock))
        assert "clear_lock: no thread of this PE has the lock" in message
        try_once[1, 1](lock, got)  # the owner still has it
    assert show(got)[0] == (job.my_pe == owner)
    if job.my_pe == owner:
        release[1, 1](lock)
    show(lock)
    count[1, 1](lock, place(np.zeros(1, np.int64)), 2, 0)
    assert not (show(locks) & 1 << 31).any()


@pytest.mark.parametrize("taker", [count, count_by_trying], ids=["set", "test"])
@pytest.mark.parametrize("offset", [0, 8])
def test_tickets_begin_anew(job, place, show, offset, taker):
    last = (1 << 31) - 2
    locks, counter = place(np.full(24, last << 32 | last)), place(np.zeros(1, np.int64))
    taker[2, 1](locks[offset:], counter, 5, 0)
    assert show(counter)[0] == (10 * job.n_pes if job.my_pe == 0 else 0)


def test_a_lock_is_an_int64(job, place):
    from numba.core.errors import TypingError

    with pytest.raises((TypeError, TypingError), match="int32"):
        release[1, 1](place(np.zeros(1, np.int32)))
