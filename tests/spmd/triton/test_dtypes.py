# SPDX-License-Identifier: BSD-3-Clause
"""What tiles are computed to, interpreted as on a GPU: bfloat16, truth values, exchanged floats."""

from __future__ import annotations

import inspect
from typing import Any, NamedTuple

import numpy as np
import pytest
import triton
import triton.language as tl
from tile_operations import VERSION

import pyshmem
import pyshmem.triton as shmem


@pytest.fixture
def bfloat16(job):
    return pyshmem.empty(0, "bfloat16").dtype


@triton.jit
def convert(dest, source, ctx, B: tl.constexpr):
    offs = tl.arange(0, B)
    shmem.store(dest + offs, tl.load(source + offs), shmem.my_pe(ctx), ctx)


@pytest.mark.parametrize(
    "source", ["int8", "int32", "int64", "uint16", "bool", "float64", "float32"]
)
def test_numbers_become_bfloat16_and_come_back(job, place, show, ctx, bfloat16, source):
    values = np.array([5, 1, 0, 127, 77, 3, 100, 9]).astype(source)
    narrow, back = place(np.zeros(8, bfloat16)), place(np.zeros(8, source))
    convert[(1,)](narrow, place(values), ctx, B=8)
    convert[(1,)](back, narrow, ctx, B=8)
    assert (show(narrow) == values.astype(bfloat16)).all()
    assert (show(back) == values).all()


def test_bfloat16_is_rounded_to_the_nearest_even(job, place, show, ctx, bfloat16):
    values = np.array([1 + 2**-8, 1 + 3 * 2**-8, -1 - 2**-8, 3.4e38, -0.0, np.inf, np.nan, 2**-130])
    values = values.astype(np.float32)
    narrow = place(np.zeros(8, bfloat16))
    convert[(1,)](narrow, place(values), ctx, B=8)
    wanted = values.astype(bfloat16)
    same = show(narrow).view(np.uint16) == wanted.view(np.uint16)
    assert (same | np.isnan(values)).all()
    assert np.isnan(show(narrow)[6].astype(np.float32))


@triton.jit
def round_down(nearest, towards_zero, source, DTYPE: tl.constexpr):
    i = tl.arange(0, 8)
    v = tl.load(source + i)
    tl.store(nearest + i, v.to(DTYPE, fp_downcast_rounding="rtne").to(tl.float32))
    tl.store(towards_zero + i, v.to(DTYPE, fp_downcast_rounding="rtz").to(tl.float32))


@pytest.mark.parametrize("name", ["bfloat16", "float16"])
def test_roundings_that_are_asked_for_are_done(job, place, show, bfloat16, name):
    values = np.array(
        [1.999, -1.999, 1 + 2**-8, 1 + 3 * 2**-8, 0.1, 1 / 3, -2.0, 1023.7], np.float32
    )
    nearest, zero = place(np.zeros(8, np.float32)), place(np.zeros(8, np.float32))
    round_down[(1,)](nearest, zero, place(values), DTYPE=getattr(tl, name))
    dtype = bfloat16 if name == "bfloat16" else np.dtype(np.float16)
    assert (show(nearest) == values.astype(dtype).astype(np.float32)).all()
    dropped = 16 if name == "bfloat16" else 13
    bits = values.view(np.uint32) >> dropped << dropped
    assert (show(zero) == bits.astype(np.uint32).view(np.float32)).all()


@triton.jit
def through(out, bits, source, DTYPE: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    narrow = tl.load(source + i).to(DTYPE)
    tl.store(out + i, narrow.to(tl.float32))
    tl.store(bits + i, narrow.to(tl.uint8, bitcast=True))


@pytest.mark.parametrize(
    ("kind", "name", "largest"),
    [("float8e4nv", "float8_e4m3fn", 448), ("float8e5", "float8_e5m2", 57344)],
)  # fmt: skip
def test_fp8_is_the_nearest_number_or_the_largest(job, place, show, kind, name, largest):
    """As ``cvt.rn.satfinite`` makes it; ml_dtypes takes what is too large for infinite, or no number."""
    dtype = np.dtype(getattr(pytest.importorskip("ml_dtypes"), name))
    all_of = np.arange(256, dtype=np.uint8).view(dtype).astype(np.float32)
    finite = np.unique(all_of[np.isfinite(all_of)])
    middles = (finite[1:] + finite[:-1]) / 2
    near = np.concatenate([np.nextafter(middles, np.float32(sign)) for sign in (-1e9, 1e9)])
    special = np.array([np.inf, -np.inf, np.nan, 1e9, -1e9, -0.0, 1e-12], np.float32)
    values = np.concatenate([all_of[np.isfinite(all_of)], middles, near, special])
    values = np.resize(values, 2048).astype(np.float32)
    out, bits = place(np.zeros(2048, np.float32)), place(np.zeros(2048, np.uint8))
    through[(1,)](out, bits, place(values), DTYPE=getattr(tl, kind), N=2048)
    wanted = np.clip(values, -largest, largest).astype(dtype)
    number = ~np.isnan(values)
    assert (show(bits)[number] == wanted.view(np.uint8)[number]).all()
    np.testing.assert_array_equal(show(out), wanted.astype(np.float32))


@triton.jit
def padded(out, source):
    """Blocks of 16 bytes and more, of a row of 12 elements."""
    rows = tl.make_tensor_descriptor(source, [1, 12], [16, 1], [1, 8], padding_option="nan")
    i = tl.arange(0, 8)
    tl.store(out + i, tl.reshape(rows.load([0, 8]), (8,)).to(tl.float32))


def test_padding_of_bfloat16_is_no_number(job, place, show, bfloat16):
    if job.device == "cuda":
        pytest.skip("a descriptor made in a kernel needs an allocator there")
    out = place(np.zeros(8, np.float32))
    padded[(1,)](out, place(np.arange(16).astype(bfloat16)))
    assert show(out)[:4].tolist() == [8, 9, 10, 11]
    assert np.isnan(show(out)[4:]).all()


@triton.jit
def padded_block(out, source):
    block = tl.make_block_ptr(source, [1, 12], [16, 1], [0, 8], [1, 8], order=[1, 0])
    i = tl.arange(0, 8)
    v = tl.load(block, boundary_check=(0, 1), padding_option="nan")
    tl.store(out + i, tl.reshape(v, (8,)).to(tl.float32))


def test_padding_of_blocks_of_bfloat16_is_no_number(job, place, show, bfloat16):
    if VERSION >= (3, 9):
        pytest.skip("Triton 3.9 has no pointers to blocks")
    out = place(np.zeros(8, np.float32))
    padded_block[(1,)](out, place(np.arange(16).astype(bfloat16)))
    assert show(out)[:4].tolist() == [8, 9, 10, 11]
    assert np.isnan(show(out)[4:]).all()


#: Methods of the interpreter's builder that hand on the bits of their tiles, or know integers only.
MOVE = {
    "create_addptr", "create_advance", "create_ashr", "create_assert", "create_assume",
    "create_atomic_cas",
    "create_atomic_poll", "create_bitcast", "create_broadcast", "create_cat", "create_descriptor_gather",
    "create_descriptor_scatter", "create_expand_dims", "create_fabs", "create_gather",
    "create_histogram", "create_int_to_ptr",
    "create_join", "create_load", "create_masked_load", "create_masked_store", "create_ptr_to_int",
    "create_reshape",
    "create_split", "create_store", "create_trans", "create_umulhi", "create_unsplat",
    "create_dot_scaled",  # by what reads its operands
}  # fmt: skip


def test_every_method_that_looks_at_numbers_is_known(job):
    """A new one of Triton's has to be looked at: does it compute on the bits of bfloat16 or FP8?"""
    if job.device == "cuda":
        pytest.skip("compiled, not interpreted")
    from triton.runtime import interpreter

    from pyshmem.triton.interpreter import corrections

    looking = set()
    for name, method in vars(interpreter.InterpreterBuilder).items():
        code = getattr(inspect.unwrap(method), "__code__", None) if callable(method) else None
        if code is not None and "data" in code.co_names:
            looking.add(name)
    assert looking - corrections.REPAIRS.keys() - MOVE == set()
    assert not corrections.REPAIRS.keys() & MOVE


@triton.jit
def count_in(total, ctx, ONE: tl.constexpr):
    for _ in range(4):
        tl.atomic_add(shmem.ptr(total, 0, ctx), ONE, scope="sys")


@pytest.mark.parametrize("name", ["bfloat16", "float16", "float32"])
def test_atomic_sums_of_narrow_floats_lose_nothing(
    job, place, finish, show, ctx, bfloat16, near, name
):
    if not near:
        pytest.skip("there is no pointer out of reach")
    dtype = bfloat16 if name == "bfloat16" else np.dtype(name)
    total = place(np.zeros(2, dtype))
    pyshmem.barrier_all()
    count_in[(3,)](total, ctx, ONE=2.0)
    finish()
    pyshmem.barrier_all()
    if job.my_pe == 0:
        assert show(total).astype(np.float32).tolist() == [24 * job.n_pes, 0]
    pyshmem.barrier_all()


@triton.jit
def store_one(dest, other, ctx):
    shmem.store(dest, 1, shmem.my_pe(ctx), ctx)
    tl.store(other, shmem.atomic_cas(dest, 1, 3, shmem.my_pe(ctx), ctx))


def test_constants_become_bfloat16(job, place, show, ctx, bfloat16, near):
    if not near:
        pytest.skip("atomics out of reach are of 4 and 8 bytes")
    dest, other = place(np.zeros(1, bfloat16)), place(np.zeros(1, bfloat16))
    store_one[(1,)](dest, other, ctx)
    assert (float(show(dest)[0]), float(show(other)[0])) == (3, 1)


@triton.jit
def compute(dest, total, above, a, b, ctx, B: tl.constexpr):
    offs = tl.arange(0, B)
    x, y = tl.load(a + offs), tl.load(b + offs)
    tl.store(dest + offs, x + y * x - y)
    tl.store(dest + B + offs, tl.where(x > y, x, -y))
    tl.store(above + offs, ((x > y) & (y > -100.0)).to(tl.int32))
    tl.store(total, tl.sum(x))


def test_bfloat16_is_computed_with(job, place, show, ctx, bfloat16):
    x = np.array([1, -2, 3, 0.5, 100, -7, 0, 2], np.float32)
    y = np.array([2, -3, 3, -0.5, 1, 7, -1, 100], np.float32)
    a, b = place(x.astype(bfloat16)), place(y.astype(bfloat16))
    dest, total = place(np.zeros(16, bfloat16)), place(np.zeros(1, bfloat16))
    above = place(np.zeros(8, np.int32))
    compute[(1,)](dest, total, above, a, b, ctx, B=8)
    assert (show(dest)[:8].astype(np.float32) == x + y * x - y).all()
    assert (show(dest)[8:].astype(np.float32) == np.where(x > y, x, -y)).all()
    assert (show(above) == (x > y)).all()
    assert float(show(total)[0]) == x.sum()


@triton.jit
def multiply(dest, a, b, ctx, B: tl.constexpr):
    places = tl.arange(0, B)[:, None] * B + tl.arange(0, B)[None, :]
    tl.store(dest + places, tl.dot(tl.load(a + places), tl.load(b + places)))


def test_matrices_of_bfloat16_are_multiplied(job, place, show, ctx, bfloat16):
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-3, 4, (16, 16)).astype(np.float32) for _ in range(2))
    dest = place(np.zeros((16, 16), np.float32))
    multiply[(1,)](dest, place(a.astype(bfloat16)), place(b.astype(bfloat16)), ctx, B=16)
    assert (show(dest) == a @ b).all()


@triton.jit
def by_scalar_masks(dest, source, ctx, B: tl.constexpr):
    offs, here = tl.arange(0, B), tl.program_id(0)
    right = (shmem.my_pe(ctx) + 1) % shmem.n_pes(ctx)
    shmem.put(dest + here * B + offs, source + offs, right, ctx, mask=here == 1)
    shmem.atomic_add(dest + here * B + offs, 100, right, ctx, mask=here != 0)


def test_a_mask_may_be_one_truth_value_for_a_tile(job, place, finish, show, ctx):
    source, dest = place(np.arange(8)), place(np.zeros(24, np.int64))
    pyshmem.barrier_all()
    by_scalar_masks[(3,)](dest, source, ctx, B=8)
    finish()
    pyshmem.barrier_all()
    assert show(dest).tolist() == [0] * 8 + list(range(100, 108)) + [100] * 8


@triton.jit
def exchange(words, olds, ctx, B: tl.constexpr):
    offs = tl.arange(0, B)
    old = shmem.atomic_xchg(words + offs, 1.5, shmem.my_pe(ctx), ctx, mask=offs > 0)
    tl.store(olds + offs, old, mask=offs > 0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_floats_are_exchanged(job, place, show, ctx, dtype):
    words, olds = place(np.arange(4).astype(dtype)), place(np.zeros(4, dtype))
    exchange[(1,)](words, olds, ctx, B=4)
    assert show(words).tolist() == [0, 1.5, 1.5, 1.5]
    assert show(olds).tolist() == [0, 1, 2, 3]


class Pair(NamedTuple):
    left: Any
    right: Any


@triton.jit
def difference_of_named(pair, pairs, out):
    """Named tuples by name and by place, nested in each other and in plain ones."""
    tl.store(out, tl.load(pair.left) - tl.load(pair[1]))
    inner, scale = pairs
    tl.store(out + 1, tl.load(inner.right.left) * scale.left + tl.load(inner.left))


def test_named_tuples_keep_their_names(job, place, show):
    three, one, out = (place(np.array(v, np.float32)) for v in ([3], [1], [0, 0]))
    pairs = (Pair(one, Pair(three, one)), Pair(2, 0))
    difference_of_named[(1,)](Pair(three, one), pairs, out)
    assert show(out).tolist() == [2, 7]
