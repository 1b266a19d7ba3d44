# SPDX-License-Identifier: BSD-3-Clause
"""In the interpreter a tile that leaves the memory of its argument is told; others are not."""

from __future__ import annotations

import numpy as np
import pytest
import triton
import triton.language as tl

import pyshmem
import pyshmem.triton as shmem

N = 10


@pytest.fixture(autouse=True)
def interpreted(job):
    if job.device != "sim":
        pytest.skip("a GPU does not know where arrays end")


@triton.jit
def touch(a, sig, n, first, ctx, WHAT: tl.constexpr, B: tl.constexpr):
    offs = first + tl.program_id(0) * B + tl.arange(0, B)
    right = (shmem.my_pe(ctx) + 1) % shmem.n_pes(ctx)
    if WHAT == "store":
        shmem.store(a + offs, tl.full((B,), 7.0, tl.float32), right, ctx, mask=offs < n)
    elif WHAT == "load":
        shmem.load(a + offs, right, ctx, mask=offs < n)
    elif WHAT == "own store":
        tl.store(a + offs, 7.0, mask=offs < n)
    elif WHAT == "atomic":
        shmem.atomic_add(a + offs, 1, right, ctx, mask=offs < n)
    elif WHAT == "tile":
        half = first + tl.arange(0, B // 2)
        tl.load(a + 2 * half[:, None] + tl.arange(0, 2)[None, :], mask=half[:, None] * 2 < n)
    elif WHAT == "cast":
        tl.load((a + offs).to(tl.pointer_type(tl.int32)), mask=offs < n)
    elif WHAT == "signal":
        shmem.signal_op(sig + n, 1, shmem.SIGNAL_SET, right, ctx)
    else:
        shmem.test(sig + n, shmem.CMP_GE, 1, ctx)


@triton.jit
def put_chunk(dest, source, nelems, ctx):
    shmem.put_chunk(dest, source, nelems, (shmem.my_pe(ctx) + 1) % shmem.n_pes(ctx), ctx)
    shmem.quiet(ctx)


TILES = ("store", "load", "own store", "atomic", "tile", "cast")


@pytest.mark.parametrize("what", TILES)
def test_a_tile_behind_the_end_is_told_with_its_elements(job, place, ctx, show, what):
    a, sig = place(np.zeros(N, np.float32)), place(np.zeros(4, np.int64))
    behind = place(np.zeros(N, np.float32))
    touch[(1,)](a, sig, N, 0, ctx, WHAT=what, B=16)
    with pytest.raises(IndexError, match="elements 10 to 15 are behind the end of a, which has 10"):
        touch[(1,)](a, sig, 99, 0, ctx, WHAT=what, B=16)
    pyshmem.barrier_all()
    assert not show(behind).any()


def test_programs_that_are_one_too_many_are_told(place, ctx):
    a = place(np.zeros(16, np.float32))
    with pytest.raises(IndexError, match=r"elements 16 to 23 are .* mask=offs < 16"):
        touch[(3,)](a, a, 99, 0, ctx, WHAT="own store", B=8)


def test_what_is_before_the_begin_is_told(place, ctx):
    place(np.zeros(64, np.float32))
    with pytest.raises(IndexError, match="elements -3 to -1 are before the begin"):
        touch[(1,)](place(np.zeros(N, np.float32)), 0, 4, -3, ctx, WHAT="store", B=4)


@pytest.mark.parametrize("what", ["signal", "test"])
def test_a_signal_that_the_array_does_not_have_is_told(place, ctx, what):
    sig = place(np.zeros(4, np.int64))
    with pytest.raises(
        IndexError, match="element 4 is behind the end of sig, which has 4 of int64\n"
    ):
        touch[(1,)](sig, sig, 4, 0, ctx, WHAT=what, B=4)


def test_a_chunk_behind_the_end_is_told(place, ctx):
    source, a = place(np.zeros(N, np.float32)), place(np.zeros(N, np.float32))
    put_chunk[(1,)](a, source, N, ctx)
    with pytest.raises(IndexError, match="element 10 is behind the end of dest"):
        put_chunk[(1,)](a, source, 11, ctx)


def test_a_part_of_an_array_may_be_left_and_the_array_may_not(place, ctx):
    whole = pyshmem.zeros(N, np.float32, heap="device")
    part = shmem.wrap(whole[2:6])
    touch[(1,)](part, part, 8, 0, ctx, WHAT="store", B=8)
    pyshmem.barrier_all()
    touch[(1,)](part, part, 8, -2, ctx, WHAT="own store", B=4)
    pyshmem.barrier_all()
    with pytest.raises(IndexError, match="which has of its array from there on, 8 of float32"):
        touch[(1,)](part, part, 9, 0, ctx, WHAT="store", B=16)


@triton.jit
def several(a, b, address, ctx, B: tl.constexpr):
    offs = tl.arange(0, B)
    either = tl.where(offs < B // 2, a + offs, b + (offs - B // 2))
    tl.store(either, 1.0)
    by_number = address + 4 * offs
    tl.store(by_number.to(tl.pointer_type(tl.float32)), 2.0)
    tl.store(shmem.ptr(a, shmem.my_pe(ctx), ctx) + tl.arange(0, B // 2), 3.0)


def test_pointers_into_several_arrays_and_addresses_are_taken_as_they_are(place, show, ctx):
    a, b = place(np.zeros(8, np.float32)), place(np.zeros(8, np.float32))
    both = np.zeros(16, np.float32)
    several[(1,)](a, b, both.__array_interface__["data"][0], ctx, B=16)
    assert show(a).tolist() == [3.0] * 8
    assert show(b).tolist() == [1.0] * 8
    assert both.tolist() == [2.0] * 16


@triton.jit
def described(a, rows, B: tl.constexpr):
    tl.make_tensor_descriptor(a, [rows, 4], [4, 1], [B, 4]).store(
        [0, 0], tl.full((B, 4), 1.0, tl.float32)
    )


def test_a_descriptor_of_more_rows_than_there_are_is_told(place):
    a = place(np.zeros((2, 4), np.float32))
    described[(1,)](a, 2, B=4)
    with pytest.raises(IndexError, match="elements 8 to 15 are behind the end of a"):
        described[(1,)](a, 4, B=4)
