# SPDX-License-Identifier: BSD-3-Clause
"""Blocking collectives beside a kernel that waits for what its host does next: done, or told why not.

A GPU loads nothing while kernels run. What a collective needs is loaded at its first use or by
``pyshmem.streams.prepare``; a first use that would wait for ever says so.
"""

from __future__ import annotations

import contextlib
import threading

import numpy as np
import pytest
from numba import cuda

import pyshmem
from pyshmem import device as shmem
from pyshmem._core import library
from pyshmem.host.kernels import stream_kernels


@cuda.jit
def wait_for_the_host(sig, out):
    shmem.signal_wait_until(sig, shmem.CMP_EQ, 1)
    out[0] = 7


@cuda.jit
def poll_for_the_host(word, turns):
    """In a loop of its own, until the host has written, or after a minute."""
    turn = 0
    while cuda.atomic.add(word, 0, 0) == 0 and turn < turns[0]:
        cuda.nanosleep(1_000_000)
        turn += 1


@pytest.fixture
def waiting(job):
    """A kernel of this PE waits in the block of ``with``, and has ended well behind it."""

    @contextlib.contextmanager
    def kernel():
        sig, out = pyshmem.new_signal(heap="device"), pyshmem.zeros(1, "int64", heap="device")
        shmem.prepare(wait_for_the_host, sig, out)
        pyshmem.barrier_all()
        if job.device in library.SIMULATED:  # its launches return when the kernel has ended
            thread = threading.Thread(target=lambda: wait_for_the_host[1, 1](sig, out))
            thread.start()
        else:  # a stream that no other waits for
            own = pyshmem.streams.Stream()
            wait_for_the_host[1, 1, cuda.external_stream(own.handle)](sig, out)
        try:
            yield
        finally:
            pyshmem.signal_set(sig, 1, job.my_pe)
            thread.join() if job.device in library.SIMULATED else cuda.synchronize()
        assert pyshmem.to_numpy(out).tolist() == [7]
        pyshmem.barrier_all()

    return kernel


def calls(job, dtype):
    """Of routines with a kernel of their own: it, dest, source, and what is first in dest then."""
    n, me = job.n_pes, job.my_pe
    ranks = np.arange(1, n + 1)
    source = pyshmem.array(np.full(4, me + 1, dtype), heap="device")
    blocks = pyshmem.array(np.repeat(np.arange(n, dtype=dtype), 4), heap="device")
    rows = (
        (pyshmem.sum_reduce, source, 4, ranks.sum()),
        (pyshmem.prod_reduce, source, 4, ranks.prod()),
        (pyshmem.xor_reduce, source, 4, np.bitwise_xor.reduce(ranks)),
        (pyshmem.fcollect, source, 4 * n, 1),
        (pyshmem.collect, source, 4 * n, 1),
        (pyshmem.alltoall, blocks, 4 * n, me),
    )
    return [
        (routine, pyshmem.zeros(length, dtype, heap="device"), given, int(first))
        for routine, given, length, first in rows
    ]


def test_prepared_collectives_are_done_beside_a_kernel_that_waits(job, near, waiting):
    if not all(map(near, range(job.n_pes))):
        pytest.skip("a proxy copies nothing beside a kernel that waits")
    rows = calls(job, np.int16)
    for routine, *_ in rows:
        pyshmem.streams.prepare(routine, dtype=np.int16)
    with waiting():
        for routine, dest, source, _ in rows:
            routine(dest, source)
    for routine, dest, _, wanted in rows:
        assert pyshmem.to_numpy(dest)[0] == wanted, routine.__name__


@pytest.mark.gpu
def test_a_first_use_beside_a_kernel_that_waits_says_what_to_prepare(job, waiting):
    if job.device != "cuda":
        pytest.skip("a simulator loads at any time")
    xor_reduce, dest, source, wanted = calls(job, np.uint16)[2]
    with waiting(), pytest.raises(pyshmem.ShmemError) as caught:
        xor_reduce(dest, source)
    said = str(caught.value)
    assert "prepare('xor_reduce', dtype='uint16')" in said
    assert "wait_for_the_host" in said
    xor_reduce(dest, source)  # nothing runs now
    assert (pyshmem.to_numpy(dest) == wanted).all()


@pytest.mark.gpu
def test_a_first_use_beside_a_kernel_that_polls_says_so_and_ends_by_the_time_out(
    job, monkeypatch, capfd
):
    """Nobody can tell such a kernel from one that computes: the load goes on once it has ended.

    It polls for as long as any PE may take to compile the collective: one whose kernel had ended before
    would go on into a collective that the others have given up.
    """
    if job.device != "cuda":
        pytest.skip("a simulator loads at any time")
    and_reduce, dest, source = pyshmem.and_reduce, *calls(job, np.int16)[2][1:3]
    word, turns = (pyshmem.array(np.array([n]), heap="device") for n in (0, 60_000))
    shmem.prepare(poll_for_the_host, word, turns)
    monkeypatch.setattr(stream_kernels, "_PATIENCE", 1.0)
    monkeypatch.setattr(stream_kernels, "setting_number", lambda name: 2 * 10**9)
    pyshmem.barrier_all()
    own = pyshmem.streams.Stream()
    poll_for_the_host[1, 1, cuda.external_stream(own.handle)](word, turns)
    with pytest.raises(pyshmem.ShmemTimeout, match=r"prepare\('and_reduce', dtype='int16'\)"):
        and_reduce(dest, source)
    assert "and_reduce, whose kernel is not loaded, waits for the kernels" in capfd.readouterr().err
    pyshmem.barrier_all()
    pyshmem.p(word, 1, job.my_pe)
    own.synchronize()
    pyshmem.barrier_all()
    monkeypatch.undo()
    and_reduce(dest, source)
    assert pyshmem.to_numpy(dest)[0] == np.bitwise_and.reduce(np.arange(1, job.n_pes + 1))
