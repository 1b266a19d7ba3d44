# SPDX-License-Identifier: BSD-3-Clause
"""Kernels: where the specification is most often read wrongly. See docs/semantics.md."""

from __future__ import annotations

import numpy as np
import pytest
from numba import cuda

import pyshmem
from pyshmem import device as shmem


@cuda.jit
def put_and_change(boxes, source, sig, right):
    i = cuda.threadIdx.x
    for k in range(boxes.shape[0]):
        while i < source.size:
            source[i] = source[i] + 1
            i += cuda.blockDim.x
        i = cuda.threadIdx.x
        shmem.put_work_group(boxes[k], source, right)
    shmem.fence_work_group()
    shmem.put_signal_work_group(boxes[0], source, sig, 1, shmem.SIGNAL_SET, right)
    while i < source.size:
        source[i] = -1
        i += cuda.blockDim.x


@pytest.mark.parametrize("nelems", [3, 5000])
def test_the_source_may_change_as_soon_as_a_put_returns(job, heap, place, show, nelems):
    right, left = (job.my_pe + 1) % job.n_pes, (job.my_pe - 1) % job.n_pes
    source = place(np.full(nelems, 100 * job.my_pe, np.int64))
    boxes, sig = place(np.zeros((4, nelems), np.int64)), pyshmem.new_signal(heap=heap)
    put_and_change[1, 64](boxes, source, sig, right)
    wanted = 100 * left + np.array([4, 2, 3, 4])
    assert (show(boxes) == wanted[:, None]).all()


@cuda.jit
def start(dest, source, fetched, word, right):
    shmem.put_nbi_work_group(dest[0], source, right)
    shmem.get_nbi_work_group(dest[1], source, right)
    if cuda.threadIdx.x == 0:
        shmem.atomic_fetch_add_nbi(fetched, word, 5, right)


def test_quiet_on_the_host_completes_what_a_finished_kernel_started(job, place):
    right, left = (job.my_pe + 1) % job.n_pes, (job.my_pe - 1) % job.n_pes
    source = place(np.arange(4000) + 10_000 * job.my_pe)
    dest, fetched = place(np.zeros((2, 4000), np.int64)), place(np.full(1, -1))
    word = place(np.full(1, 7 + job.my_pe))
    start[1, 32](dest, source, fetched, word, right)
    cuda.synchronize()
    pyshmem.quiet()
    assert pyshmem.to_numpy(fetched)[0] == 7 + right
    assert (pyshmem.to_numpy(dest[1]) == np.arange(4000) + 10_000 * right).all()
    pyshmem.sync_all()
    assert (pyshmem.to_numpy(dest)[0] == np.arange(4000) + 10_000 * left).all()
    assert pyshmem.to_numpy(word)[0] == 12 + job.my_pe


@cuda.jit
def store_all_then_put(dest, source, value, right):
    # No barrier by the caller: the routine has its own, before it reads or hands over.
    i = cuda.threadIdx.x
    while i < source.size:
        source[source.size - 1 - i] = value
        i += cuda.blockDim.x
    shmem.put_work_group(dest, source, right)


def test_a_group_sends_what_any_of_its_threads_stored_before(job, place, show):
    right, left = (job.my_pe + 1) % job.n_pes, (job.my_pe - 1) % job.n_pes
    dest, source = place(np.zeros(3000, np.int64)), place(np.zeros(3000, np.int64))
    for i in range(1, 6):
        store_all_then_put[1, 96](dest, source, 10 * i + job.my_pe, right)
        assert (show(dest) == 10 * i + left).all()
        pyshmem.barrier_all()


@cuda.jit
def extremes(team, greatest, least, source):
    shmem.max_reduce_work_group(team, greatest, source, source.size)
    shmem.min_reduce_work_group(team, least, source, source.size)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_nan_of_any_pe_is_the_extreme(job, place, show, dtype):
    values = np.full(job.n_pes + 2, 1 + job.my_pe, dtype)
    values[job.my_pe] = np.nan  # of one PE, in each of the first elements
    source = place(values)
    greatest, least = place(np.zeros_like(values)), place(np.zeros_like(values))
    extremes[1, 32](shmem.TEAM_WORLD, greatest, least, source)
    nans = np.arange(values.size) < job.n_pes
    for got, number in ((show(greatest), job.n_pes), (show(least), 1)):
        assert (np.isnan(got) == nans).all()
        assert (got[~nans] == number).all()


@cuda.jit
def reduce_both(team, total, least, product, source):
    shmem.sum_reduce_work_group(team, total, source, source.size)
    shmem.min_reduce_work_group(team, least, source, source.size)
    shmem.prod_reduce_work_group(team, product, source, source.size)


@pytest.mark.parametrize("nelems", [7, 3000])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_kernels_and_host_reduce_to_the_same_bits(job, place, show, dtype, nelems):
    generator = np.random.default_rng([nelems, job.my_pe])
    values = generator.normal(size=nelems) * 10.0 ** generator.integers(-6, 6, nelems)
    source = place(values.astype(dtype))
    by_kernel = [place(np.zeros(nelems, dtype)) for _ in range(3)]
    reduce_both[1, 64](shmem.TEAM_WORLD, *by_kernel, source)
    by_host = place(np.zeros(nelems, dtype))
    routines = (pyshmem.sum_reduce, pyshmem.min_reduce, pyshmem.prod_reduce)
    for routine, kernels in zip(routines, by_kernel, strict=True):
        got = show(kernels)
        routine(by_host, source)
        assert show(by_host).tobytes() == got.tobytes()
