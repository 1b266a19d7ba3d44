# SPDX-License-Identifier: BSD-3-Clause
"""Which road transfers take, and that signals stay behind their data on any two."""

from __future__ import annotations

import numpy as np
import pytest
from numba import cuda

import pyshmem
from pyshmem import cutover
from pyshmem import device as shmem


def requests_of(kernel, grid, *arguments):
    """How many requests the kernel sends to this PE's proxy."""
    before = pyshmem.proxy_stats().requests
    kernel[grid](*arguments)
    cuda.synchronize()
    return pyshmem.proxy_stats().requests - before


@cuda.jit
def put_some(dest, source, pe, nelems):
    shmem.put_work_group(dest, source, pe, nelems)
    shmem.get_work_group(source, dest, pe, nelems)


@pytest.fixture
def cutover_at_1k(job):
    for op in ("put", "get"):
        cutover.set(op, 1024)
    yield
    cuda.synchronize()
    for op in ("put", "get"):
        cutover.reset(op)
    pyshmem.barrier_all()


@pytest.mark.parametrize("nelems", [1023, 1024, 2000])
def test_the_cutover_divides_stores_from_engines(job, p2p, place, show, cutover_at_1k, nelems):
    right, left = (job.my_pe + 1) % job.n_pes, (job.my_pe - 1) % job.n_pes
    dest = place(np.zeros(2000, np.uint8))
    source = place(np.full(2000, job.my_pe + 1, np.uint8))
    # The environment outranks the fixture; and no engine copies to its own PE.
    offloaded = sum(nelems >= cutover.get(op, 64, 1) for op in ("put", "get"))
    requests = (offloaded if job.n_pes > 1 else 0) if p2p else 2
    assert requests_of(put_some, (1, 64), dest, source, right, nelems) == requests
    assert (show(dest)[:nelems] == left + 1).all()


@cuda.jit
def quiet_and_fence():
    shmem.fence_work_group()
    shmem.quiet_work_group()


def test_ordering_asks_nothing_when_nothing_is_under_way(job, place):
    requests_of(
        quiet_and_fence, (2, 64)
    )  # asks for what earlier kernels sent without a quiet behind it
    quiets = pyshmem.proxy_stats().quiets
    assert requests_of(quiet_and_fence, (2, 64)) == 0
    assert pyshmem.proxy_stats().quiets == quiets


def chase(put_signal):
    @cuda.jit
    def kernel(dest, source, sig, errors, rounds, sig_op, right):
        """The receiver looks at the last element first: it must be there once the signal is."""
        for k in range(1, rounds + 1):
            for i in range(cuda.threadIdx.x, source.size, cuda.blockDim.x):
                source[i] = k
            cuda.syncthreads()
            value = 1 if sig_op == shmem.SIGNAL_ADD else k
            put_signal(dest, source, sig, value, sig_op, right)
            shmem.signal_wait_until_work_group(sig, shmem.CMP_GE, k)
            for i in range(cuda.threadIdx.x, dest.size, cuda.blockDim.x):
                if dest[dest.size - 1 - i] < k:
                    errors[0] += 1
            shmem.quiet_work_group()
            shmem.barrier_all_work_group()

    return kernel


CHASES = {
    name: chase(getattr(shmem, name))
    for name in ("put_signal_work_group", "put_signal_nbi_work_group")
}
HEAPS = ["same", "data on the host heap", "signal on the host heap"]


@pytest.mark.parametrize("mix", HEAPS)
@pytest.mark.parametrize("sig_op", [shmem.SIGNAL_SET, shmem.SIGNAL_ADD])
@pytest.mark.parametrize("name", CHASES)
def test_the_signal_is_behind_its_data_on_every_pair_of_roads(
    job, heap, place, show, name, sig_op, mix
):
    if mix != "same" and job.device == "cuda":
        pytest.skip("kernels on GPUs use one heap at a time")
    right, n = (job.my_pe + 1) % job.n_pes, 700
    on_host = {"heap": "host", "dtype": np.int32}
    dest = pyshmem.zeros(n, **on_host) if mix.startswith("data") else place(np.zeros(n, np.int32))
    sig = pyshmem.new_signal(heap="host" if mix.startswith("signal") else heap)
    source, errors = place(np.zeros(n, np.int32)), place(np.zeros(1, np.int32))
    CHASES[name][1, 32](dest, source, sig, errors, 10, sig_op, right)
    assert show(errors)[0] == 0
    assert show(sig)[0] == 10


@cuda.jit
def put_tile(dest, back, pe):
    tile = cuda.shared.array(1001, np.uint8)
    for i in range(cuda.threadIdx.x, tile.size, cuda.blockDim.x):
        tile[i] = (3 * i + shmem.my_pe()) % 251
    shmem.put_work_group(dest[1:], tile, pe)
    shmem.quiet_work_group()
    shmem.get_work_group(tile, dest[1:], pe)
    for i in range(cuda.threadIdx.x, tile.size, cuda.blockDim.x):
        back[i] = tile[i]


def test_shared_memory_takes_the_road_it_can(job, place, show, cutover_at_1k):
    right, left = (job.my_pe + 1) % job.n_pes, (job.my_pe - 1) % job.n_pes
    dest, back = place(np.zeros(1002, np.uint8)), place(np.zeros(1001, np.uint8))
    put_tile[1, 64](dest, back, right)
    assert (show(dest)[1:] == (3 * np.arange(1001) + left) % 251).all()
    assert (show(back) == (3 * np.arange(1001) + job.my_pe) % 251).all()
