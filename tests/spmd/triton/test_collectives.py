# SPDX-License-Identifier: BSD-3-Clause
"""Collectives of tiles."""

from __future__ import annotations

import functools
import operator

import numpy as np
import pytest
import triton
import triton.language as tl

import pyshmem
import pyshmem.triton as shmem

FUNCTIONS = {
    "sum": operator.add, "prod": operator.mul, "min": np.minimum, "max": np.maximum,
    "and": operator.and_, "or": operator.or_, "xor": operator.xor,
}  # fmt: skip


@triton.jit
def reduce_tiles(
    dest, source, words, rounds, ctx, OP: tl.constexpr, TWO: tl.constexpr, B: tl.constexpr
):
    offs = tl.program_id(0) * B + tl.arange(0, B)
    tile = tl.load(source + offs)
    for turn in range(rounds):
        total = shmem.all_reduce(tile, words, ctx, OP, two_shots=TWO)
        tl.store(dest + turn * tl.num_programs(0) * B + offs, total)
        tile = (tile.to(tl.float32) + 1).to(tile.dtype)  # bfloat16 + 1 is not interpreted


def values_of(pe, nelems, dtype, turn=0):
    return (np.arange(nelems) % 7 + pe % 3 + 1).astype(dtype) + np.asarray(turn).astype(dtype)


def combined(op, n_pes, nelems, dtype, turn=0):
    values = [values_of(pe, nelems, dtype, turn) for pe in range(n_pes)]
    if dtype in ("float16", "bfloat16"):
        values = [v.astype("float32") for v in values]
    return functools.reduce(FUNCTIONS[op], values).astype(dtype)


@pytest.fixture(scope="module")
def words(job):
    return shmem.channel(3, 8 * 64)


@pytest.mark.parametrize("two", [False, True])
@pytest.mark.parametrize(
    ("dtype", "op"),
    [
        ("float32", "sum"), ("float32", "prod"), ("float32", "min"), ("int32", "xor"), ("int64", "max"),
        ("float64", "sum"), ("float16", "sum"), ("bfloat16", "sum"), ("int8", "or"), ("uint16", "and"),
    ],
)  # fmt: skip
def test_all_get_the_same_in_pe_order(job, place, show, ctx, words, dtype, op, two):
    dtype = pyshmem.empty(0, dtype).dtype
    source = place(values_of(job.my_pe, 3 * 64, dtype))
    dest = place(np.zeros(3 * 3 * 64, dtype))
    reduce_tiles[(3,)](dest, source, words, 3, ctx, OP=op, TWO=two, B=64)
    expected = [combined(op, job.n_pes, 3 * 64, dtype, turn) for turn in range(3)]
    assert (show(dest) == np.concatenate(expected)).all()


@pytest.mark.parametrize(
    ("dtype", "most", "two"), [("int32", 512, False), ("bfloat16", 1024, True)]
)
def test_tiles_in_quads_and_in_units_by_turns(job, place, show, ctx, dtype, most, two):
    """Small numbers, as those of calls are: what is data in one form is no number in the other."""
    many, dtype = shmem.channel(1, 2048), pyshmem.empty(0, dtype).dtype
    source = place(values_of(job.my_pe, most, dtype))
    for nelems in (most, 64, most):
        dest = place(np.zeros(2 * nelems, dtype))
        reduce_tiles[(1,)](dest, source, many, 2, ctx, OP="sum", TWO=two, B=nelems)
        expected = [combined("sum", job.n_pes, nelems, dtype, turn) for turn in range(2)]
        assert (show(dest) == np.concatenate(expected)).all()


@pytest.mark.parametrize("dtype", ["float16", "float32", "int64", "uint8"])
def test_a_tile_of_one_element(job, place, show, ctx, words, dtype):
    source, dest = place(values_of(job.my_pe, 1, dtype)), place(np.zeros(1, dtype))
    reduce_tiles[(1,)](dest, source, words, 1, ctx, OP="sum", TWO=False, B=1)
    assert show(dest) == combined("sum", job.n_pes, 1, dtype)


@triton.jit
def reduce_matrix(dest, source, words, ctx, M: tl.constexpr, N: tl.constexpr):
    places = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(dest + places, shmem.all_reduce(tl.load(source + places), words, ctx))


def test_a_tile_of_two_dimensions(job, place, show, ctx, words):
    source, dest = place(values_of(job.my_pe, 64, "float32")), place(np.zeros(64, "float32"))
    reduce_matrix[(1,)](dest, source, words, ctx, M=4, N=16)
    assert (show(dest) == combined("sum", job.n_pes, 64, "float32")).all()


@triton.jit
def spread(dest, collected, exchanged, source, words, ctx, B: tl.constexpr):
    offs = tl.arange(0, B)
    n = shmem.n_pes(ctx)
    for turn in range(3):
        for root in range(n):
            tile = shmem.broadcast(
                (tl.load(source + offs).to(tl.float32) + turn).to(source.dtype.element_ty),
                root,
                words,
                ctx,
            )
            tl.store(dest + (turn * n + root) * B + offs, tile)
    shmem.fcollect(collected + offs, tl.load(source + offs), B, words, ctx)
    shmem.alltoall(exchanged + offs, source + offs, B, words, ctx)


@pytest.mark.parametrize("dtype", ["int8", "bfloat16", "float32", "float64"])
def test_tiles_are_spread(job, place, show, ctx, words, dtype):
    dtype, n = pyshmem.empty(0, dtype).dtype, job.n_pes
    source = place((np.arange(16 * n) + 10 * job.my_pe).astype(dtype))
    dest, collected = place(np.zeros(3 * n * 16, dtype)), place(np.zeros(16 * n, dtype))
    exchanged = place(np.zeros(16 * n, dtype))
    spread[(1,)](dest, collected, exchanged, source, words, ctx, B=16)
    own = [(np.arange(16 * n) + 10 * pe).astype(dtype) for pe in range(n)]
    expected = [
        own[root][:16] + np.asarray(turn).astype(dtype) for turn in range(3) for root in range(n)
    ]
    assert (show(dest) == np.concatenate(expected)).all()
    assert (show(collected) == np.concatenate([values[:16] for values in own])).all()
    mine = slice(16 * job.my_pe, 16 * (job.my_pe + 1))
    assert (show(exchanged) == np.concatenate([values[mine] for values in own])).all()


@triton.jit
def reduce_all(
    dest, source, nelems, ctx, words, OP: tl.constexpr, BLOCK: tl.constexpr, BY_WORDS: tl.constexpr
):
    if BY_WORDS:
        shmem.all_reduce_grid(dest, source, nelems, ctx, BLOCK, OP, words=words)
    else:
        shmem.all_reduce_grid(dest, source, nelems, ctx, BLOCK, OP)


@pytest.mark.parametrize(
    ("dtype", "op"), [("float32", "sum"), ("bfloat16", "sum"), ("int32", "max")]
)
@pytest.mark.parametrize("nelems", [1, 100, 256])
def test_grids_reduce_what_is_large(job, place, show, ctx, words, dtype, op, nelems):
    dtype = pyshmem.empty(0, dtype).dtype
    source = place(values_of(job.my_pe, 256, dtype))
    for by_words in (False, True, True) if nelems == 100 else (False,):
        dest = place(np.zeros(256, dtype))
        reduce_all[(3,)](dest, source, nelems, ctx, words, OP=op, BLOCK=32, BY_WORDS=by_words)
        assert (show(dest)[:nelems] == combined(op, job.n_pes, 256, dtype)[:nelems]).all()
        assert (show(dest)[nelems:] == 0).all()


def test_what_a_channel_has_no_place_for(job, place, ctx, fault, words):
    source, dest = place(np.zeros(4 * 256, "float32")), place(np.zeros(4 * 256, "float32"))

    def launch(programs, nelems):
        return lambda: reduce_tiles[(programs,)](
            dest, source, words, 1, ctx, OP="sum", TWO=False, B=nelems
        )

    assert "a tile of 1024 bytes does not fit the channel, whose programs have" in fault(
        launch(1, 256)
    )
    pyshmem.barrier_all()
    with pytest.raises(ValueError, match="a channel of 0 programs"):
        shmem.channel(0, 4)
    with pytest.raises(TypeError, match="programs is '2'"):
        shmem.channel("2", 64)


@triton.jit
def from_root(dest, source, words, root, team, ctx, B: tl.constexpr):
    offs = tl.arange(0, B)
    tl.store(dest + offs, shmem.broadcast(tl.load(source + offs), root, words, ctx, team))


@pytest.mark.parametrize("root", [-1, 4, 1 << 40])
def test_a_root_that_is_no_member_is_a_fault_and_no_call(job, place, show, ctx, fault, words, root):
    source, dest = place(values_of(job.my_pe, 16, "int32")), place(np.zeros(16, "int32"))
    message = fault(lambda: from_root[(1,)](dest, source, words, root, 0, ctx, B=16))
    assert "device routine broadcast" in message
    assert f"pe {root} is not one of the {job.n_pes} PEs" in message
    assert not show(dest).any()
    from_root[(1,)](dest, source, words, job.n_pes - 1, 0, ctx, B=16)
    assert (show(dest) == values_of(job.n_pes - 1, 16, "int32")).all()


@pytest.mark.parametrize("team", [64, 1 << 20, -1, -(1 << 40)])
def test_a_number_behind_the_table_of_teams_is_a_fault(job, place, ctx, fault, words, team):
    source, dest = place(np.zeros(16, "int32")), place(np.zeros(16, "int32"))
    message = fault(lambda: from_root[(1,)](dest, source, words, 0, team, ctx, B=16))
    assert f"slot {team} holds no team of this PE" in message


@pytest.mark.parametrize(
    ("dtype", "op", "text"),
    [
        ("bool", "sum", "sum is of numbers, not of bool"),
        ("bool", "prod", "prod is of numbers, not of bool"),
        ("float32", "and", "and is of integers and bool, not of fp32"),
        ("int32", "avg", "op is 'avg'; it is sum, prod"),
    ],
)
def test_an_operation_that_a_dtype_does_not_have_is_refused(
    job, place, ctx, words, refusal, dtype, op, text
):
    tile = place(np.zeros(8, dtype))
    assert text in refusal(
        lambda: reduce_tiles[(1,)](tile, tile, words, 1, ctx, OP=op, TWO=False, B=8)
    )
    assert text in refusal(
        lambda: reduce_all[(1,)](tile, tile, 8, ctx, words, OP=op, BLOCK=8, BY_WORDS=False)
    )


@triton.jit
def wrong_shapes(dest, words, ctx, WHAT: tl.constexpr):
    if WHAT == "fcollect":
        shmem.fcollect(dest, tl.load(dest), 1, words, ctx)
    elif WHAT == "alltoall":
        shmem.alltoall(dest, dest, 1, words, ctx)
    elif WHAT == "dest":
        shmem.all_reduce_grid(dest + tl.arange(0, 8), dest, 8, ctx, 8)
    else:
        shmem.all_reduce_grid(dest, dest + tl.arange(0, 8), 8, ctx, 8)


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("fcollect", "fcollect is of tiles"),
        ("alltoall", "alltoall is of tiles"),
        ("dest", "dest is a scalar pointer"),
        ("source", "source is a scalar pointer"),
    ],
)
def test_tiles_and_scalars_are_not_taken_for_each_other(
    job, place, show, ctx, words, refusal, what, text
):
    dest = place(np.zeros(16, "int32"))
    assert text in refusal(lambda: wrong_shapes[(1,)](dest, words, ctx, WHAT=what))
