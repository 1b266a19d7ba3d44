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
def leave_soon():
    """After some time in which the other PEs arrive, the handler has the PE leave where it waits."""

    def leave(number, frame):
        time.sleep(0.5)
        raise LeftError

    before = signal.signal(signal.SIGALRM, leave)
    yield lambda: signal.setitimer(signal.ITIMER_REAL, 0.05)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def test_a_barrier_does_not_end_with_a_pe_that_leaves_it(job, leave_soon):
    """The others come, to a collective of another kind even, while the handler of PE 0 runs."""
    if job.n_pes > 1 and job.my_pe == 0:
        leave_soon()
        with pytest.raises(LeftError):
            pyshmem.barrier_all()
    else:
        time.sleep(0.4)  # PEs on several hosts look for signals four times a second
    assert pyshmem.zeros(3, int).sum() == 0  # its size is exchanged
