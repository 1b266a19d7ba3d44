# SPDX-License-Identifier: BSD-3-Clause
"""Which road transfers take, and that signals stay behind their data on any two."""

from __future__ import annotations

import numpy as np
import pytest
from numba import cuda

import pyshmem
from pyshmem import cutover
from pyshmem import device as shmem
from pyshmem._core import library
from pyshmem.device import state


def requests_of(kernel, grid, *arguments):
    """How many requests the kernel sends to this PE's proxy."""
    before = pyshmem.proxy_stats().requests
    kernel[grid](*arguments)
    cuda.synchronize()
    pyshmem.quiet()  # what nothing in the kernel waits for is counted too
    return pyshmem.proxy_stats().requests - before


@cuda.jit
def put_some(dest, source, back, pe, nelems):
    shmem.put_work_group(dest, source, pe, nelems)
    shmem.get_work_group(back, source, pe, nelems)


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
def test_the_cutover_divides_stores_from_engines(job, near, place, show, cutover_at_1k, nelems):
    if library.checks_deliver():
        pytest.skip("what arrives late takes the host's road, and asks nothing of the proxy")
    right, left = (job.my_pe + 1) % job.n_pes, (job.my_pe - 1) % job.n_pes
    dest = place(np.zeros(2000, np.uint8))
    source = place(np.full(2000, job.my_pe + 1, np.uint8))
    # The environment outranks the fixture; and no engine copies to its own PE.
    offloaded = sum(nelems >= cutover.get(op, 64, 1) for op in ("put", "get"))
    requests = (offloaded if job.n_pes > 1 else 0) if near(right) else 2
    back = place(np.zeros(2000, np.uint8))
    assert requests_of(put_some, (1, 64), dest, source, back, right, nelems) == requests
    assert (show(dest)[:nelems] == left + 1).all()
    assert (show(back)[:nelems] == right + 1).all()


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
def test_the_signal_is_behind_its_data_on_every_pair_of_paths(
    job, p2p, heap, place, show, name, sig_op, mix
):
    if mix != "same" and (p2p or job.device == "cuda"):
        pytest.skip("kernels that reach peers use one heap, and those on GPUs one at a time")
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


@cuda.jit
def one_of_each(words, sig, old, right):
    """Six: of the first two and the last one a link without native atomics can do none."""
    old[0] = shmem.atomic_fetch_add(words, 5, right)
    shmem.atomic_xor(words[1:], 6, right)
    shmem.atomic_set(words[2:], 7, right)
    old[1] = shmem.atomic_fetch(words[3:], right)
    shmem.signal_set(sig, 8, right)
    shmem.signal_add(sig[1:], 9, right)


def test_atomics_take_the_ring_where_the_link_has_none(job, p2p, near, place, show):
    """Host calls go by the owner too, and streams are told; by PYSHMEM_P2P_ATOMICS no link has any."""
    right = (job.my_pe + 1) % job.n_pes
    words, sig = place(np.full(4, 4, np.int64)), place(np.zeros(2, np.uint64))
    old = place(np.zeros(2, np.int64))
    by_owner = library.device_state()[state.BY_OWNER + right // 64] >> right % 64 & 1
    if job.device in library.SIMULATED:
        assert by_owner == (job.n_pes > 1 and library.setting("P2P_ATOMICS")[0] == "owner" and p2p)
    assert requests_of(one_of_each, (1, 1), words, sig, old, right) == (
        3 * by_owner if near(right) else 6
    )
    assert show(words).tolist() == [9, 2, 7, 4]
    assert show(sig).tolist() == [8, 9]
    assert show(old).tolist() == [4, 4]
    assert pyshmem.atomic_fetch_add(words, 1, right) == 9
    if by_owner:
        with pytest.raises(pyshmem.UnsupportedError, match="no native atomic operations"):
            pyshmem.atomic_add(words, 1, right, stream=pyshmem.streams.Stream())
    pyshmem.barrier_all()
    assert pyshmem.to_numpy(words)[0] == 10
