# SPDX-License-Identifier: BSD-3-Clause
"""Host routines on both heaps; the device heap is the simulator's, or a GPU's if the job runs there."""

from __future__ import annotations

import numpy as np
import pytest

import pyshmem
from pyshmem._core.library import setting_number


@pytest.fixture(params=["host", "device"])
def heap(request, job):
    if request.param == "device" and job.device == "none":
        pytest.skip("the job has no device heap")
    return request.param


@pytest.fixture
def fixed_heap(heap):
    """One that is full where it ends."""
    info = pyshmem.heap_info(heap)
    if info.memory < info.nbytes:
        pytest.skip("the heap grows: tests/pe/test_heap_growth.py fills one")
    return heap


@pytest.fixture
def right(job):
    return (job.my_pe + 1) % job.n_pes


@pytest.fixture
def left(job):
    return (job.my_pe - 1) % job.n_pes


@pytest.fixture
def make():
    """``make(values, heap)``: a symmetric array with these elements here."""

    def made(values, heap="host"):
        try:
            return pyshmem.array(values, heap=heap)
        except pyshmem.UnsupportedError as error:  # CuPy has fewer dtypes; the same on every PE
            pytest.skip(str(error))

    return made


@pytest.fixture
def stream(job):
    if job.device == "none":
        pytest.skip("the job has no device heap")
    made = pyshmem.streams.Stream()
    yield made
    made.destroy()


@pytest.fixture
def on_gpu(make):
    """``on_gpu(values)``: an array on the device heap."""
    return lambda values: make(values, "device")


@pytest.fixture
def show():
    """The elements of an array, once everything that was under way to it has arrived."""

    def contents(array):
        pyshmem.barrier_all()
        return pyshmem.to_numpy(array)

    return contents


@pytest.fixture
def same_everywhere(job):
    """``same_everywhere(values)``: assert that all PEs have the same bytes."""

    def check(values):
        mine = np.frombuffer(np.ascontiguousarray(values).tobytes() or b"\0", np.uint8)
        source = pyshmem.array(mine)
        dest = pyshmem.empty(mine.size * job.n_pes, np.uint8)
        pyshmem.fcollect(dest, source)
        for theirs in dest.reshape(job.n_pes, -1):
            assert (theirs == mine).all()

    return check


@pytest.fixture
def checking():
    if not setting_number("CHECK"):
        pytest.skip("only in checking mode, PYSHMEM_CHECK=1")


@pytest.fixture
def not_checking():
    if setting_number("CHECK"):
        pytest.skip("not in checking mode")
