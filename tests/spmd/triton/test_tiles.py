# SPDX-License-Identifier: BSD-3-Clause
"""Tiles on other PEs, and the numbers of PEs, from Triton kernels."""

from __future__ import annotations

import numpy as np
import pytest
import triton
import triton.language as tl

import pyshmem
import pyshmem.triton as shmem

DTYPES = ("int8", "uint8", "int16", "int32", "int64", "float16", "float32", "float64", "bfloat16")


@triton.jit
def round_trip(dest, back, source, n, ctx, B: tl.constexpr):
    """Stores to the right neighbour, loads it back from there."""
    right = (shmem.my_pe(ctx) + 1) % shmem.n_pes(ctx)
    offs = tl.program_id(0) * B + tl.arange(0, B)
    m = offs < n
    shmem.store(dest + offs, tl.load(source + offs, mask=m), right, ctx, mask=m)
    shmem.quiet(ctx)
    tl.store(back + offs, shmem.load(dest + offs, right, ctx, mask=m, other=0), mask=m)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("nelems", [1, 100, 256])
def test_what_is_stored_is_loaded_back(job, place, finish, show, ctx, dtype, nelems):
    values = (np.arange(256) % 100 + job.my_pe).astype(pyshmem.empty(0, dtype).dtype)
    source, dest, back = place(values), place(np.zeros_like(values)), place(np.zeros_like(values))
    pyshmem.barrier_all()
    round_trip[(4,)](dest, back, source, nelems, ctx, B=64)
    finish()
    pyshmem.barrier_all()
    left = (job.my_pe - 1) % job.n_pes
    expected = (np.arange(256) % 100 + left).astype(values.dtype)
    assert (show(dest)[:nelems] == expected[:nelems]).all()
    assert (show(back)[:nelems] == values[:nelems]).all()
    assert (show(dest)[nelems:] == 0).all()


@triton.jit
def move(dest, got, copied, source, mine, ctx, B: tl.constexpr):
    right = (shmem.my_pe(ctx) + 1) % shmem.n_pes(ctx)
    left = (shmem.my_pe(ctx) + shmem.n_pes(ctx) - 1) % shmem.n_pes(ctx)
    rows = tl.arange(0, 4)[:, None] * B + tl.arange(0, B)[None, :]
    shmem.put(dest + rows, mine + rows, right, ctx)
    shmem.get(got + rows, source + rows, left, ctx)
    shmem.copy(copied + rows, source + rows, right, left, ctx)


def test_put_get_and_copy_of_blocks_of_two_dimensions(job, place, finish, show, ctx):
    mine, source = (place(np.arange(64.0) + 100 * job.my_pe) for _ in range(2))
    dest, got, copied = (place(np.zeros(64)) for _ in range(3))
    pyshmem.barrier_all()
    move[(1,)](dest, got, copied, source, mine, ctx, B=16)
    finish()
    pyshmem.barrier_all()
    left = (job.my_pe - 1) % job.n_pes
    assert (show(dest) == np.arange(64) + 100 * left).all()
    assert (show(got) == np.arange(64) + 100 * left).all()
    assert (show(copied) == np.arange(64) + 100 * ((left - 1) % job.n_pes)).all()


@triton.jit
def all_atomics(words, olds, ctx):
    for pe in range(shmem.n_pes(ctx)):
        me = shmem.my_pe(ctx) + 1
        shmem.atomic_add(words, 2 * me, pe, ctx)
        shmem.atomic_sub(words, me, pe, ctx)
        shmem.atomic_or(words + 1, tl.cast(1, tl.int64) << me, pe, ctx, sem="relaxed")
        shmem.atomic_xor(words + 2, tl.cast(1, tl.int64) << me, pe, ctx)
        shmem.atomic_and(words + 3, ~(tl.cast(1, tl.int64) << me), pe, ctx)
        shmem.atomic_min(words + 4, -me, pe, ctx)
        shmem.atomic_max(words + 5, me, pe, ctx)
    me = shmem.my_pe(ctx)
    tl.store(olds, shmem.atomic_xchg(words + 6, 70, me, ctx))
    tl.store(olds + 1, shmem.atomic_cas(words + 6, 70, 71, me, ctx))
    tl.store(olds + 2, shmem.atomic_cas(words + 6, 70, 72, me, ctx))


def test_atomics_of_all_pes_come_together(job, place, show, ctx):
    words, olds = place(np.array([0, 0, 0, -1, 0, 0, 6, 0])), place(np.zeros(3, np.int64))
    pyshmem.barrier_all()
    all_atomics[(1,)](words, olds, ctx)
    assert show(olds).tolist() == [6, 70, 71]
    pyshmem.barrier_all()
    n = job.n_pes
    bits = (1 << n + 1) - 2
    assert show(words).tolist() == [n * (n + 1) // 2, bits, bits, ~bits, -n, n, 71, 0]


@triton.jit
def add_tile(dest, ctx, B: tl.constexpr):
    offs = tl.arange(0, B)
    for pe in range(shmem.n_pes(ctx)):
        shmem.atomic_add(dest + offs, 1.5, pe, ctx, mask=offs < B - 1)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_tiles_are_added(job, place, finish, show, ctx, dtype):
    dest = place(np.zeros(32, dtype))
    pyshmem.barrier_all()
    add_tile[(3,)](dest, ctx, B=32)
    finish()
    pyshmem.barrier_all()
    assert show(dest).tolist() == [4.5 * job.n_pes] * 31 + [0]


@triton.jit
def by_pointer(dest, ctx):
    for pe in range(shmem.n_pes(ctx)):
        tl.store(shmem.ptr(dest, pe, ctx) + shmem.my_pe(ctx), shmem.my_pe(ctx) + 10)


@triton.jit
def own_pointer(dest, ctx):
    tl.store(shmem.ptr(dest, shmem.my_pe(ctx), ctx), 5)


def test_ptr_is_a_plain_pointer(job, place, finish, show, ctx, fault, near):
    dest = place(np.zeros(job.n_pes, np.int32))
    pyshmem.barrier_all()
    if not near:
        own_pointer[(1,)](dest, ctx)
        assert show(dest)[0] == 5
        if job.n_pes > 1:
            message = fault(lambda: by_pointer[(1,)](dest, ctx))
            assert "is not reached by loads and stores" in message
        return
    by_pointer[(1,)](dest, ctx)
    finish()
    pyshmem.barrier_all()
    assert show(dest).tolist() == [10 + pe for pe in range(job.n_pes)]


@triton.jit
def numbers(found, team, ctx):
    tl.store(found, shmem.my_pe(ctx))
    tl.store(found + 1, shmem.n_pes(ctx))
    tl.store(found + 2, shmem.team_my_pe(team, ctx))
    tl.store(found + 3, shmem.team_n_pes(team, ctx))
    for pe in range(shmem.n_pes(ctx)):
        tl.store(found + 4 + pe, shmem.team_translate_pe(shmem.TEAM_WORLD, pe, team, ctx))
    tl.store(found + 4 + shmem.n_pes(ctx), shmem.team_translate_pe(team, 99, shmem.TEAM_WORLD, ctx))


def test_numbers_of_pes_and_teams(job, place, show, ctx):
    n = job.n_pes
    others = pyshmem.TEAM_WORLD.split_strided(n - 1, -1, n)  # all, the other way round
    found = place(np.zeros(5 + n, np.int32))
    numbers[(1,)](found, shmem.team_number(others), ctx)
    reverse = list(range(n))[::-1]
    assert show(found).tolist() == [job.my_pe, n, n - 1 - job.my_pe, n, *reverse, -1]
    others.destroy()


@triton.jit
def tiles_to(dest, pe, ctx):
    if tl.program_id(0) == 2:
        shmem.store(dest + tl.arange(0, 4), 1, pe, ctx)
        tl.store(dest + 4, 9)  # the program has ended


@pytest.mark.parametrize("pe", [-1, 1000])
def test_a_pe_that_there_is_not(job, place, show, ctx, fault, pe):
    dest = place(np.zeros(8, np.int32))
    message = fault(lambda: tiles_to[(3,)](dest, pe, ctx))
    assert f"pe {pe} is not one of the {job.n_pes} PEs" in message
    assert "tiles_to (test_tiles.py:" in message
    assert "block 2" in message
    assert "store" in message
    assert (show(dest) == 0).all()
    tiles_to[(3,)](dest, job.my_pe, ctx)
    assert show(dest).tolist() == [1, 1, 1, 1, 9, 0, 0, 0]


@triton.jit
def signal_somewhere(word, team, ctx):
    if team < 0:
        shmem.signal_op(word, 1, shmem.SIGNAL_SET, shmem.my_pe(ctx), ctx)
    else:
        tl.store(word, shmem.team_n_pes(team, ctx))


def test_a_signal_off_the_heap_and_a_team_that_there_is_not(job, place, show, ctx, fault):
    if job.device == "cuda":
        import cupy

        elsewhere = shmem.wrap(cupy.zeros(1, np.int64))
    else:
        elsewhere = shmem.wrap(np.zeros(1, np.int64))
    assert "heap='device'" in fault(lambda: signal_somewhere[(1,)](elsewhere, -1, ctx))
    assert "slot 50 holds no team" in fault(
        lambda: signal_somewhere[(1,)](place(np.zeros(1, np.int64)), 50, ctx)
    )


def test_arrays_are_checked_at_each_launch(job, ctx):
    with pytest.raises(ValueError, match="not on a symmetric heap"):
        shmem.wrap(np.zeros(3), symmetric=True)
    array = pyshmem.zeros(4, np.int32, heap="device")
    argument = shmem.wrap(array)
    pyshmem.free(array)
    with pytest.raises(ValueError, match="cannot be used any more"):
        tiles_to[(1,)](argument, 0, ctx)


@triton.jit
def address_of(found, ctx):
    tl.store(found, ctx.to(tl.int64))
    tl.store(found + 1, shmem.my_pe(ctx))


def test_the_context_may_be_an_int(job, place, show, ctx):
    found = place(np.zeros(2, np.int64))
    address_of[(1,)](found, int(ctx))
    assert show(found).tolist() == [ctx.address, job.my_pe]


def test_the_context_is_an_array_on_gpus_alone(job, place, show, ctx):
    assert hasattr(ctx, "__cuda_array_interface__") == (job.device == "cuda")
    if job.device == "cuda":
        import cupy

        found = place(np.zeros(2, np.int64))
        address_of[(1,)](found, cupy.asarray(ctx))
        assert show(found).tolist() == [ctx.address, job.my_pe]


@triton.jit
def one_by_one(dest, places, active, ctx, WHAT: tl.constexpr, B: tl.constexpr):
    """Each element by an address of its own, that of element 0 less ``places``, where ``active``."""
    lanes = tl.arange(0, B)
    pointers = dest - tl.load(places + lanes)
    m = tl.load(active + lanes) != 0
    me = shmem.my_pe(ctx)
    if WHAT == "store":
        shmem.store(pointers, 5, me, ctx, mask=m)
    elif WHAT == "load":
        tl.store(dest + lanes, shmem.load(pointers, me, ctx, mask=m, other=7), mask=m)
    elif WHAT == "atomic_add":
        shmem.atomic_add(pointers, 5, me, ctx, mask=m)
    else:
        shmem.put(pointers, dest + lanes, me, ctx, mask=m)


FAR_OFF = (
    1 << 40,
    -(1 << 40),
    1 << 59,
    -(1 << 59),
)  # elements of 8 bytes; the last by wrapping round


@pytest.mark.parametrize("what", ["store", "load", "atomic_add", "put"])
@pytest.mark.parametrize("wrong", FAR_OFF)
@pytest.mark.parametrize("lane", [0, 5, 7])
def test_the_interpreter_checks_each_active_element(
    job, place, show, ctx, fault, near, what, wrong, lane
):
    if job.device == "cuda":
        pytest.skip("on GPUs places are checked in the checking mode alone: PYSHMEM_CHECK")
    if what == "atomic_add" and not near:
        pytest.skip("the host looks at these")
    dest, offsets, active = place(np.zeros(8, np.int64)), -np.arange(8), np.ones(8, np.int32)
    offsets[lane] = wrong
    places = place(offsets)
    message = fault(lambda: one_by_one[(1,)](dest, places, place(active), ctx, WHAT=what, B=8))
    assert f"device routine {what}: 8 bytes at" in message
    assert "are not on the device heap" in message
    assert not show(dest).any()
    active[lane] = 0
    one_by_one[(1,)](dest, places, place(active), ctx, WHAT=what, B=8)
    assert show(dest).any() == (what in ("store", "atomic_add"))


@triton.jit
def at_address(address, ctx):
    shmem.store(address.to(tl.int64).to(tl.pointer_type(tl.int64)), 1, shmem.my_pe(ctx), ctx)


@pytest.mark.parametrize("address", [0, -8, 64])
def test_the_interpreter_checks_scalars(job, ctx, fault, address):
    if job.device == "cuda":
        pytest.skip("on GPUs places are checked in the checking mode alone: PYSHMEM_CHECK")
    message = fault(lambda: at_address[(1,)](address, ctx))
    assert f"8 bytes at {address:#x} are not on the device heap" in message


@triton.jit
def to_many(dest, back, counts, source, pes, ctx, B: tl.constexpr):
    """Each column of a tile goes to a PE of its own."""
    columns = tl.arange(0, B)
    places = tl.arange(0, 2)[:, None] * B + columns[None, :]
    to = tl.load(pes + columns)[None, :]
    mine = dest + shmem.my_pe(ctx) * 2 * B
    shmem.store(mine + places, tl.load(source + places), to, ctx)
    shmem.atomic_add(counts + columns, 1, tl.load(pes + columns), ctx, mask=columns < B - 1)
    shmem.quiet(ctx)
    tl.store(back + places, shmem.load(mine + places, to, ctx))


def test_a_tile_may_have_a_pe_for_each_element(job, place, finish, show, ctx, fault):
    n, columns = job.n_pes, np.arange(8)
    source = np.arange(16, dtype=np.float32) + 100 * job.my_pe
    dest, back = place(np.zeros(16 * n, np.float32)), place(np.zeros(16, np.float32))
    counts, pes = place(np.zeros(8, np.int32)), place((columns + 1) % n)
    pyshmem.barrier_all()
    to_many[(1,)](dest, back, counts, place(source), pes, ctx, B=8)
    finish()
    pyshmem.barrier_all()
    own = (columns + 1) % n == job.my_pe
    for pe in range(n):
        sent = (np.arange(16) + 100 * pe).reshape(2, 8)
        assert (show(dest)[16 * pe :][:16].reshape(2, 8) == np.where(own, sent, 0)).all()
    assert (show(back) == source).all()
    assert (show(counts) == np.where(own & (columns < 7), n, 0)).all()
    pyshmem.barrier_all()
    wrong = place(np.array([0, 0, 0, 0, 0, -3, 0, 0]))
    message = fault(lambda: to_many[(1,)](dest, back, counts, place(source), wrong, ctx, B=8))
    assert f"device routine store: pe -3 is not one of the {n} PEs" in message
