# SPDX-License-Identifier: BSD-3-Clause
"""Put and get from kernels, at every scope, dtype, length and alignment."""

from __future__ import annotations

import numpy as np
import pytest
from numba import cuda

import pyshmem
from pyshmem import device as shmem

DTYPES = (
    "int8", "uint8", "int16", "uint16", "float16", "int32", "uint32", "float32", "int64", "uint64",
    "float64", "complex64", "complex128", "bool",
)  # fmt: skip
#: Routine of each scope, and the threads that call it.
PUTS = {"put": 1, "put_warp": 32, "put_work_group": 96, "put_nbi": 1, "put_nbi_warp": 32,
        "put_nbi_work_group": 70}  # fmt: skip
GETS = {name.replace("put", "get"): threads for name, threads in PUTS.items()}


def pattern(n, dtype, pe, salt=0):
    """Different on every PE, different in every element."""
    values = (np.arange(n) * 7 + 13 * pe + salt + 1) % 251
    return values % 2 == 0 if dtype == "bool" else values.astype(dtype)


def put_kernel(routine):
    @cuda.jit
    def kernel(dest, source, pe):
        routine(dest, source, pe)
        shmem.quiet()

    return kernel


def offset_kernel(routine, quiet):
    @cuda.jit
    def kernel(dest, source, pe, at, begin, n):
        routine(dest[at : at + n], source[begin : begin + n], pe)
        quiet()

    return kernel


KERNELS = {name: put_kernel(getattr(shmem, name)) for name in (*PUTS, *GETS)}
OFFSET_KERNELS = {
    name: offset_kernel(getattr(shmem, name), getattr(shmem, quiet))
    for name, quiet in (
        ("put", "quiet"), ("put_warp", "quiet_warp"), ("put_work_group", "quiet_work_group"),
        ("get", "quiet"), ("get_warp", "quiet_warp"), ("get_work_group", "quiet_work_group"),
    )
}  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("routine", PUTS)
def test_put_fills_the_neighbours_array(job, place, show, routine, dtype):
    right, left = (job.my_pe + 1) % job.n_pes, (job.my_pe - 1) % job.n_pes
    source, dest = place(pattern(100, dtype, job.my_pe)), place(np.zeros(100, dtype))
    KERNELS[routine][1, PUTS[routine]](dest, source, right)
    assert (show(dest) == pattern(100, dtype, left)).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("routine", GETS)
def test_get_reads_the_neighbours_array(job, place, show, routine, dtype):
    right = (job.my_pe + 1) % job.n_pes
    source, dest = place(pattern(100, dtype, job.my_pe)), place(np.zeros(100, dtype))
    KERNELS[routine][1, GETS[routine]](dest, source, right)
    assert (show(dest) == pattern(100, dtype, right)).all()


@pytest.mark.parametrize("routine", OFFSET_KERNELS)
def test_every_alignment_and_length_copies_exactly_its_bytes(job, place, show, routine):
    """Guard bytes on both sides stay as they are; all pairs of offsets modulo 16 are covered."""
    threads = {"": 1, "_warp": 32, "_work_group": 48}[routine[3:]]
    peer = (job.my_pe + 1) % job.n_pes
    from_pe = (job.my_pe - 1) % job.n_pes if routine.startswith("put") else peer
    cases = [
        (at, begin, n)
        for at in range(0, 16, 3)
        for begin in (at, 0, 5, 8)
        for n in (0, 1, 15, 16, 33, 200)
    ]
    if job.device == "cuda":
        cases = [
            (at, begin, n)
            for at in range(16)
            for begin in range(16)
            for n in (0, 1, 7, 17, 64, 333)
        ]
    source = place(pattern(400, "uint8", job.my_pe))
    dest = place(np.zeros((len(cases), 400), np.uint8))
    rows = [dest[i] for i in range(len(cases))]
    for row, (at, begin, n) in zip(rows, cases, strict=True):
        OFFSET_KERNELS[routine][1, threads](row, source, peer, at, begin, n)
    got = show(dest)
    sent = pattern(400, "uint8", from_pe)
    for found, (at, begin, n) in zip(got, cases, strict=True):
        expected = np.zeros(400, np.uint8)
        expected[at : at + n] = sent[begin : begin + n]
        assert (found == expected).all(), (at, begin, n)


@pytest.mark.parametrize("dtype", ["int16", "float32", "float64", "complex128"])
def test_unaligned_elements_of_wider_types(job, place, show, dtype):
    right, left = (job.my_pe + 1) % job.n_pes, (job.my_pe - 1) % job.n_pes
    source = place(pattern(300, dtype, job.my_pe))
    dest = place(np.zeros(300, dtype))
    OFFSET_KERNELS["put_work_group"][1, 64](dest, source, right, 3, 6, 250)
    expected = np.zeros(300, dtype)
    expected[3:253] = pattern(300, dtype, left)[6:256]
    assert (show(dest) == expected).all()


def test_large_put_by_many_blocks(job, place, show):
    n = (1 << 20 if job.device == "cuda" else 1 << 14) + 3

    right, left = (job.my_pe + 1) % job.n_pes, (job.my_pe - 1) % job.n_pes
    source, dest = place(pattern(n, "float32", job.my_pe)), place(np.zeros(n, np.float32))
    put_in_parts[4, 128](dest, source, right)
    assert (show(dest) == pattern(n, "float32", left)).all()


@cuda.jit
def put_in_parts(dest, source, pe):
    part = (source.size + cuda.gridDim.x - 1) // cuda.gridDim.x
    lo = cuda.blockIdx.x * part
    hi = min(lo + part, source.size)
    shmem.put_work_group(dest[lo:hi], source[lo:hi], pe)


@cuda.jit
def put_some(dest, source, pe, nelems):
    shmem.put_work_group(dest, source, pe, nelems)


@pytest.mark.parametrize("nelems", [0, 1, 7, 10])
def test_nelems_limits_what_is_copied(job, place, show, nelems):
    right, left = (job.my_pe + 1) % job.n_pes, (job.my_pe - 1) % job.n_pes
    source, dest = place(pattern(10, "int32", job.my_pe)), place(np.zeros(10, np.int32))
    put_some[1, 32](dest, source, right, nelems)
    expected = np.zeros(10, np.int32)
    expected[:nelems] = pattern(10, "int32", left)[:nelems]
    assert (show(dest) == expected).all()


@cuda.jit
def exchange_elements(dest, source, right, left):
    i = cuda.grid(1)
    if i < source.size:
        shmem.p(dest[i:], shmem.g(source[i:], left), right)


@pytest.mark.parametrize("dtype", DTYPES)
def test_p_and_g_move_single_elements(job, place, show, dtype):
    right, left = (job.my_pe + 1) % job.n_pes, (job.my_pe - 1) % job.n_pes
    source, dest = place(pattern(40, dtype, job.my_pe)), place(np.zeros(40, dtype))
    exchange_elements[2, 32](dest, source, right, left)
    assert (show(dest) == pattern(40, dtype, (left - 1) % job.n_pes)).all()


@cuda.jit
def index_peer(dest, source, pe):
    theirs = shmem.ptr(source, pe)
    i = cuda.threadIdx.x
    dest[i] = theirs[source.size - 1 - i]


def test_ptr_gives_the_peers_array_to_index(job, near, place, show):
    """Who is far cannot be indexed; without P2P nobody can but the own."""
    close = [(job.my_pe + k) % job.n_pes for k in range(1, job.n_pes)]
    right = next((pe for pe in close if near(pe)), job.my_pe)
    source, dest = place(pattern(32, "float64", job.my_pe)), place(np.zeros(32))
    index_peer[1, 32](dest, source, right)
    assert (show(dest) == pattern(32, "float64", right)[::-1]).all()


@cuda.jit
def put_from_shared_memory(dest, pe):
    tile = cuda.shared.array(64, np.int32)
    tile[cuda.threadIdx.x] = cuda.threadIdx.x + 100 * shmem.my_pe()
    shmem.put_work_group(dest, tile, pe)


def test_put_takes_a_source_in_shared_memory(job, place, show):
    right, left = (job.my_pe + 1) % job.n_pes, (job.my_pe - 1) % job.n_pes
    dest = place(np.zeros(64, np.int32))
    put_from_shared_memory[1, 64](dest, right)
    assert (show(dest) == np.arange(64) + 100 * left).all()


@cuda.jit
def rows_of_a_matrix(dest, source, pe):
    shmem.put_work_group(dest[2], source[1], pe)
    shmem.put_work_group(dest[0, 3:7], source[0, 1:5], pe)
    shmem.put_work_group(dest[3:5], source[3:5], pe)


def test_rows_and_row_slices_of_matrices(job, place, show):
    right, left = (job.my_pe + 1) % job.n_pes, (job.my_pe - 1) % job.n_pes
    source = place(pattern(50, "float32", job.my_pe).reshape(5, 10))
    dest = place(np.zeros((5, 10), np.float32))
    rows_of_a_matrix[1, 32](dest, source, right)
    sent, expected = pattern(50, "float32", left).reshape(5, 10), np.zeros((5, 10), np.float32)
    expected[2], expected[0, 3:7], expected[3:5] = sent[1], sent[0, 1:5], sent[3:5]
    assert (show(dest) == expected).all()


def test_host_and_kernel_see_the_same_heap(job, place, show):
    right = (job.my_pe + 1) % job.n_pes
    source, dest = place(pattern(20, "int64", job.my_pe)), place(np.zeros(20, np.int64))
    pyshmem.put(dest, source, right)
    pyshmem.barrier_all()
    back = place(np.zeros(20, np.int64))
    KERNELS["get_work_group"][1, 32](back, dest, right)
    assert (show(back) == pattern(20, "int64", job.my_pe)).all()
