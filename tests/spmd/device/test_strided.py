# SPDX-License-Identifier: BSD-3-Clause
"""Strided and block-strided copies from kernels, against NumPy's slices."""

from __future__ import annotations

import numpy as np
import pytest
from numba import cuda
from team_kinds import fault_of, values_of

import pyshmem
from pyshmem import device as shmem

SCOPES = {"": 1, "_warp": 32, "_work_group": 48}
DTYPES = (
    "int8", "uint8", "int16", "uint16", "float16", "int32", "uint32", "float32", "int64", "uint64",
    "float64", "complex64", "complex128", "bool",
)  # fmt: skip
#: dst, sst, elements of a block, blocks.
SHAPES = [(1, 1, 1, 40), (3, 2, 1, 40), (2, 7, 1, 0), (5, 4, 3, 6), (50, 41, 40, 3), (9, 9, 9, 1)]


def single(routine, quiet):
    @cuda.jit
    def kernel(dest, source, dst, sst, nelems, pe):
        routine(dest, source, dst, sst, nelems, pe)
        quiet()

    return kernel


def blocked(routine, quiet):
    @cuda.jit
    def kernel(dest, source, dst, sst, bsize, nblocks, pe):
        routine(dest, source, dst, sst, bsize, nblocks, pe)
        quiet()

    return kernel


KERNELS = {
    name + scope: make(getattr(shmem, name + scope), getattr(shmem, "quiet" + scope))
    for name, make in (("iput", single), ("iget", single), ("ibput", blocked), ("ibget", blocked))
    for scope in SCOPES
}


def copied(dest, source, dst, sst, bsize, nblocks):
    """What NumPy makes of it."""
    result = dest.copy()
    for block in range(nblocks):
        begin, at = block * sst, block * dst
        result[at : at + bsize] = source[begin : begin + bsize]
    return result


def extent(stride, bsize, nblocks):
    return max(1, (nblocks - 1) * stride + bsize)


@pytest.mark.parametrize("name", ["ibput", "ibget"])
@pytest.mark.parametrize(("dst", "sst", "bsize", "nblocks"), [(3, 2, 2, 4), (9, 9, 9, 1)])
def test_records_wider_than_a_request_s_elements(job, place, show, name, dst, sst, bsize, nblocks):
    """Where they go by the ring, they do as several elements."""
    if job.device == "cuda":
        pytest.skip("CuPy's arrays have no records")
    record = np.dtype([("a", "i8"), ("b", "i8"), ("c", "i8")])
    right, left = (job.my_pe + 1) % job.n_pes, (job.my_pe - 1) % job.n_pes
    dest = place(np.zeros(12, record))
    source = place((100 * job.my_pe + np.arange(36)).view(record))
    KERNELS[name][1, 1](dest, source, dst, sst, bsize, nblocks, right)
    sent = (100 * (left if name == "ibput" else right) + np.arange(36)).reshape(12, 3)
    wanted = copied(np.zeros((12, 3), "i8"), sent, dst, sst, bsize, nblocks)
    assert (show(dest).view("i8").reshape(12, 3) == wanted).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["iput", "iget"])
def test_single_elements_of_every_dtype(job, place, show, name, dtype):
    right, left = (job.my_pe + 1) % job.n_pes, (job.my_pe - 1) % job.n_pes
    dest, source = place(values_of(9, 31, dtype)), place(values_of(job.my_pe, 21, dtype))
    KERNELS[name][1, 1](dest, source, 3, 2, 10, right)
    sent = values_of(left if name == "iput" else right, 21, dtype)
    assert (show(dest) == copied(values_of(9, 31, dtype), sent, 3, 2, 1, 10)).all()


@pytest.mark.parametrize("nbytes", [3, 6, 12, 15])
@pytest.mark.parametrize("name", ["iput", "iget"])
def test_elements_of_odd_sizes_leave_their_neighbours_alone(job, heap, place, show, name, nbytes):
    if job.device == "cuda" and heap == "device":
        return  # CuPy has no such dtypes
    right, left = (job.my_pe + 1) % job.n_pes, (job.my_pe - 1) % job.n_pes
    there = np.full(12, b"." * nbytes)
    sent = [np.array([bytes([97 + k + pe]) * nbytes for k in range(9)]) for pe in range(job.n_pes)]
    dest, source = place(there), place(sent[job.my_pe])
    KERNELS[name][1, 1](dest, source, 3, 2, 4, right)
    expected = copied(there, sent[left if name == "iput" else right], 3, 2, 1, 4)
    assert (show(dest) == expected).all()


@pytest.mark.parametrize(("dst", "sst", "bsize", "nblocks"), SHAPES)
@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("name", ["ibput", "ibget"])
def test_blocks_end_where_the_arrays_end(job, place, show, name, scope, dst, sst, bsize, nblocks):
    """The arrays hold exactly what the strides need: an element more would be a fault."""
    right, left = (job.my_pe + 1) % job.n_pes, (job.my_pe - 1) % job.n_pes
    there = np.full(extent(dst, bsize, nblocks), -1, np.int32)
    n = extent(sst, bsize, nblocks)
    dest, source = place(there), place(np.arange(n, dtype=np.int32) + 1000 * job.my_pe)
    KERNELS[name + scope][1, SCOPES[scope]](dest, source, dst, sst, bsize, nblocks, right)
    sent = np.arange(n) + 1000 * (left if name == "ibput" else right)
    assert (show(dest) == copied(there, sent, dst, sst, bsize, nblocks)).all()


@pytest.mark.parametrize("scope", ["_warp", "_work_group"])
@pytest.mark.parametrize("name", ["iput", "iget"])
def test_groups_share_the_elements(job, place, show, name, scope):
    right, left = (job.my_pe + 1) % job.n_pes, (job.my_pe - 1) % job.n_pes
    dest, source = place(np.zeros(600)), place(np.arange(400.0) + 1000 * job.my_pe)
    KERNELS[name + scope][1, SCOPES[scope]](dest, source, 3, 2, 200, right)
    sent = np.arange(400.0) + 1000 * (left if name == "iput" else right)
    assert (show(dest) == copied(np.zeros(600), sent, 3, 2, 1, 200)).all()


@cuda.jit
def column_by_shared_memory(dest, source, pe):
    tile = cuda.shared.array(16, np.int64)
    shmem.iget_work_group(tile, source[1:], 1, 4, 8, pe)
    if cuda.threadIdx.x < 8:
        tile[8 + cuda.threadIdx.x] = -tile[cuda.threadIdx.x]
    shmem.ibput_work_group(dest, tile[8:], 3, 2, 2, 4, pe)


def test_the_callers_side_may_be_shared_memory(job, place, show):
    right, left = (job.my_pe + 1) % job.n_pes, (job.my_pe - 1) % job.n_pes
    dest, source = place(np.zeros(12, np.int64)), place(np.arange(32) + 100 * job.my_pe)
    column_by_shared_memory[1, 32](dest, source, right)
    column = -(np.arange(1, 32, 4) + 100 * job.my_pe)  # what the left one read here and put here
    assert left >= 0
    assert (show(dest) == copied(np.zeros(12, np.int64), column, 3, 2, 2, 4)).all()


@pytest.mark.parametrize(
    ("name", "arguments", "text"),
    [
        ("iput", (0, 1, 2), "stride 0 is less"),
        ("iget", (1, -2, 2), "stride -2 is less"),
        ("iput", (1, 3, 5), "nelems 13"),
        ("iput", (3, 1, 5), "nelems 13"),
        ("iget", (3, 1, 5), "nelems 13"),
        ("iget", (1, 3, 5), "nelems 13"),
        ("iput", (1, 1, -1), "nelems"),
        ("ibput", (1, 2, 2, 3), "stride 1 is less than 1, or than the block of 2"),
        ("ibget", (2, 2, 0, 3), "or than the block of 0"),
        ("ibput", (4, 4, 4, 4), "nelems 16"),
    ],
)
def test_wrong_strides_and_counts_are_faults(job, place, show, name, arguments, text):
    dest, source = place(np.zeros(12, np.int32)), place(np.ones(12, np.int32))
    message = fault_of(lambda: KERNELS[name][1, 1](dest, source, *arguments, job.my_pe))
    assert name in message
    assert text in message
    assert (show(dest) == 0).all()


@pytest.mark.parametrize("stride", [2**61, 2**63 - 1])
@pytest.mark.parametrize("name", ["iput", "iget"])
def test_a_single_element_has_strides_of_any_size(job, place, show, name, stride):
    dest, source = place(np.zeros(4)), place(np.full(4, job.my_pe + 1.0))
    right, left = (job.my_pe + 1) % job.n_pes, (job.my_pe - 1) % job.n_pes
    KERNELS[name][1, 1](dest, source, stride, stride, 1, right)
    assert (show(dest) == [(left if name == "iput" else right) + 1, 0, 0, 0]).all()


def test_host_and_kernel_agree(job, place, show):
    """A column that a kernel writes is the one that the host reads."""
    right = (job.my_pe + 1) % job.n_pes
    dest, source = place(np.zeros(20)), place(np.arange(5.0) + 10 * job.my_pe)
    KERNELS["iput"][1, 1](dest, source, 4, 1, 5, right)
    show(dest)
    column = np.zeros(5)
    pyshmem.iget(column, dest, right, dst=1, sst=4)
    assert (column == np.arange(5.0) + 10 * job.my_pe).all()
    pyshmem.barrier_all()
