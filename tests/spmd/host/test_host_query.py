# SPDX-License-Identifier: BSD-3-Clause
"""Queries, thread levels, counted init, and the memory routines beyond malloc and free."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from reference import pattern

import pyshmem


def test_pe_accessible(job):
    assert all(pyshmem.pe_accessible(pe) for pe in range(job.n_pes))
    assert not pyshmem.pe_accessible(-1)
    assert not pyshmem.pe_accessible(job.n_pes)


def test_addr_accessible_is_about_symmetric_arrays(job, heap, make):
    array = make(np.zeros(4), heap)
    for pe in range(job.n_pes):
        assert pyshmem.addr_accessible(array, pe)
        assert pyshmem.addr_accessible(array[2:], pe)
        assert not pyshmem.addr_accessible(np.zeros(4), pe)
    assert not pyshmem.addr_accessible(array, job.n_pes)
    with pytest.raises(TypeError, match="not an array"):
        pyshmem.addr_accessible(4096, 0)


def test_version_and_name():
    assert pyshmem.info_get_version() == (1, 6) == (pyshmem.MAJOR_VERSION, pyshmem.MINOR_VERSION)
    assert pyshmem.info_get_name() == "pyshmem"


def test_threads_may_call(job, make, right):
    assert pyshmem.query_thread() == pyshmem.THREAD_MULTIPLE
    levels = [
        pyshmem.THREAD_SINGLE, pyshmem.THREAD_FUNNELED, pyshmem.THREAD_SERIALIZED,
        pyshmem.THREAD_MULTIPLE,
    ]  # fmt: skip
    assert levels == sorted(levels)
    counter = make(np.zeros(1, int))

    def body(_):
        for _ in range(50):
            pyshmem.atomic_inc(counter, right)

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(body, range(3)))
    pyshmem.barrier_all()
    assert counter[0] == 150


def test_init_is_counted(job):
    assert pyshmem.initialized()
    again = pyshmem.init(thread_level=pyshmem.THREAD_SERIALIZED)
    assert again is job
    assert pyshmem.query_thread() == pyshmem.THREAD_MULTIPLE
    pyshmem.finalize()
    assert pyshmem.initialized()


# ---- memory --------------------------------------------------------------------------------------


@pytest.mark.parametrize("align", [8, 64, 4096, 65536])
def test_align(heap, align):
    pyshmem.empty(3, "u1", heap=heap)
    array = pyshmem.empty(5, heap=heap, align=align)
    interface = getattr(array, "__cuda_array_interface__", None) or array.__array_interface__
    assert interface["data"][0] % align == 0


def test_wrong_alignments_and_hints_are_refused(job):
    for align in (0, 4, 24, -8):
        with pytest.raises(ValueError, match=f"align is {align}"):
            pyshmem.empty(5, align=align)
    with pytest.raises(ValueError, match="hints is 4"):
        pyshmem.empty(5, hints=4)


def test_hints_change_nothing_for_the_user(job, make, right, left):
    hints = pyshmem.MALLOC_ATOMICS_REMOTE | pyshmem.MALLOC_SIGNAL_REMOTE
    counter = pyshmem.empty(1, int, hints=hints)
    counter[0] = 0
    pyshmem.barrier_all()
    pyshmem.atomic_add(counter, job.my_pe, right)
    pyshmem.barrier_all()
    assert counter[0] == left


@pytest.mark.parametrize(("before", "after"), [(10, 1000), (1000, 10), (7, 7), (100, (4, 50))])
def test_realloc_keeps_the_elements(job, heap, make, right, left, before, after):
    old = make(pattern(before, "int64", job.my_pe), heap)
    view = old[1:]
    new = pyshmem.realloc(old, after)
    assert new.shape == (after if isinstance(after, tuple) else (after,))
    kept = min(before, new.size)
    values = pyshmem.to_numpy(new).reshape(-1)[:kept]
    assert (values == pattern(before, "int64", job.my_pe)[:kept]).all()
    if isinstance(old, pyshmem.SymmetricArray):
        for gone in (old, view):
            with pytest.raises(ValueError, match="reallocated"):
                pyshmem.put(gone, np.zeros(1, int), 0)
    pyshmem.barrier_all()
    pyshmem.put(new, np.arange(kept) + job.my_pe, right)
    pyshmem.barrier_all()
    assert (pyshmem.to_numpy(new).reshape(-1)[:kept] == np.arange(kept) + left).all()


def test_realloc_needs_no_second_block(job, fixed_heap):
    heap = fixed_heap
    most = pyshmem.heap_info(heap).largest_free
    array = pyshmem.empty(most, np.uint8, heap=heap)
    array = pyshmem.realloc(array, most // 2)
    array = pyshmem.realloc(array, most)
    assert pyshmem.heap_info(heap).largest_free < most
    pyshmem.free(array)
    assert pyshmem.heap_info(heap).largest_free == most


def test_realloc_to_and_from_nothing(job, make):
    used = pyshmem.heap_info().allocations
    array = pyshmem.realloc(make(np.arange(4)), 0)
    assert array.size == 0
    array = pyshmem.realloc(array, 6)
    array[:] = job.my_pe
    pyshmem.barrier_all()
    assert pyshmem.g(array, job.n_pes - 1) == job.n_pes - 1
    assert pyshmem.heap_info().allocations == used + 1


def test_a_realloc_that_fails_leaves_the_array(job, make):
    array = make(np.arange(5))
    with pytest.raises(pyshmem.HeapExhausted):
        pyshmem.realloc(array, 2**40)
    assert array.tolist() == list(range(5))
    pyshmem.barrier_all()
    assert pyshmem.g(array[4:], job.n_pes - 1) == 4
    with pytest.raises(ValueError, match="is a view"):
        pyshmem.realloc(array[1:], 3)
    pyshmem.free(array)
    with pytest.raises(ValueError, match="cannot be reallocated: it was freed"):
        pyshmem.realloc(array, 3)


def test_what_ptr_returned_is_no_array_of_this_pe(job):
    array, peer = pyshmem.zeros(4), (job.my_pe + 1) % job.n_pes
    theirs = pyshmem.ptr(array, peer)
    if theirs is None or peer == job.my_pe:
        return
    with pytest.raises(ValueError, match=r"dest .* is what ptr\(\) returned, memory of another PE"):
        pyshmem.put(theirs[1:], array[1:], peer)
