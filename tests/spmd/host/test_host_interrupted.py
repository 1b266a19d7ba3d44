# SPDX-License-Identifier: BSD-3-Clause
"""A signal handler that takes a PE out of a barrier while the others come to it."""

from __future__ import annotations

import signal
import time

import pytest

import pyshmem


class LeftError(Exception):
    """What the handler raises."""


@pytest.fixture
def come_and_leave(job):
    """``come_and_leave(told)``: a barrier that the PE leaves when it has told the others to come."""

    def come(told):
        def leave(number, frame):
            for pe in range(1, job.n_pes):
                pyshmem.atomic_set(told, 1, pe)
            time.sleep(0.5)
            raise LeftError

        signal.signal(signal.SIGALRM, leave)
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        pyshmem.barrier_all()

    before = signal.getsignal(signal.SIGALRM)
    yield come
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def test_a_barrier_does_not_end_with_a_pe_that_leaves_it(job, come_and_leave):
    """The others come, to a collective of another kind even, while the handler of PE 0 runs."""
    told = pyshmem.zeros(1, int)
    if job.n_pes > 1 and job.my_pe == 0:
        with pytest.raises(LeftError):
            come_and_leave(told)
    elif job.n_pes > 1:
        pyshmem.wait_until(told, pyshmem.CMP_EQ, 1)
    assert pyshmem.zeros(3, int).sum() == 0  # its size is exchanged
