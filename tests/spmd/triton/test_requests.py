# SPDX-License-Identifier: BSD-3-Clause
"""Chunks by copy engines, posts and prints, from Triton kernels."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
import triton
import triton.language as tl

import pyshmem
import pyshmem.triton as shmem


@triton.jit
def exchange(dest, back, source, sig, nelems, ctx, B: tl.constexpr):
    """Each program hands its chunk to the right, and fetches that from the left which it was handed."""
    n = shmem.n_pes(ctx)
    left, right = (shmem.my_pe(ctx) + n - 1) % n, (shmem.my_pe(ctx) + 1) % n
    k = tl.program_id(0)
    offs = k * nelems + tl.arange(0, B)
    tl.store(source + offs, offs + 1000 * shmem.my_pe(ctx), mask=tl.arange(0, B) < nelems)
    shmem.put_chunk(dest + k * nelems, source + k * nelems, nelems, right, ctx, sig + k, 5)
    shmem.signal_wait_until(sig + k, shmem.CMP_EQ, 5, ctx)
    shmem.get_chunk(back + k * nelems, source + k * nelems, nelems, left, ctx)
    shmem.quiet(ctx)


def test_chunks_travel_and_say_so(job, place, show, ctx):
    dest, back, source = (place(np.zeros(5 * 100, np.int32)) for _ in range(3))
    sig = place(np.zeros(5, np.int64))
    pyshmem.barrier_all()
    exchange[(5,)](dest, back, source, sig, 100, ctx, B=128)
    wanted = np.arange(500) + 1000 * ((job.my_pe - 1) % job.n_pes)
    assert (show(dest) == wanted).all()
    assert (show(back) == wanted).all()


@triton.jit
def many(dest, source, rounds, ctx):
    for turn in range(rounds):
        place = turn * tl.num_programs(0) + tl.program_id(0)
        shmem.put_chunk(dest + place, source + place, 1, shmem.my_pe(ctx), ctx)
    shmem.quiet(ctx)


def test_more_requests_than_a_ring_holds(job, place, show, ctx):
    rounds = 6  # tests/pe/test_triton.py has rings of 8
    source, dest = place(np.arange(8.0 * rounds)), place(np.zeros(8 * rounds))
    many[(8,)](dest, source, rounds, ctx)
    assert (show(dest) == show(source)).all()


@triton.jit
def quiet_only(dest, source, pe, ctx):
    shmem.put_chunk(dest, source, 8, pe, ctx)
    shmem.quiet(ctx)


def test_what_the_host_finds_wrong_is_told(job, place, show, ctx, fault):
    dest, source = place(np.zeros(8)), place(np.ones(8))
    message = fault(lambda: quiet_only[(1,)](dest, source, 77, ctx))
    assert "put without a reply failed on the host" in message
    assert "77" in message
    quiet_only[(1,)](dest, source, job.my_pe, ctx)
    assert (show(dest) == 1).all()


@triton.jit
def tell(handler, address, ctx):
    shmem.post(handler, address, 7, 3, 0, ctx)
    shmem.print("a number", 1234567890123, ctx)
    shmem.print("and a float", 0.5, ctx)
    shmem.print("a word alone", None, ctx)
    shmem.quiet(ctx)


def test_posts_and_prints_reach_the_host(job, ctx, capfd):
    memset = ctypes.cast(ctypes.CDLL(None).memset, ctypes.c_void_p).value  # address, byte, size
    buffer = ctypes.create_string_buffer(8)
    handler = pyshmem.register_handler(memset)
    tell[(1,)](int(handler), ctypes.addressof(buffer), ctx)
    if job.device == "cuda":  # quiet is of kernels that have ended
        import cupy

        cupy.cuda.Device().synchronize()
    pyshmem.quiet()
    pyshmem.unregister_handler(handler)
    assert buffer.raw == b"\7\7\7" + bytes(5)
    printed = capfd.readouterr().out
    assert "a number" in printed
    assert "1234567890123" in printed
    assert "0.5" in printed
    assert "a word alone (block 0" in printed


@triton.jit
def ask_host(found, handler, ctx):
    number = tl.program_id(0)
    answer = shmem.call(handler, 10 * number, number, 0, 0, ctx)
    tl.store(found + number, answer)


def test_calls_bring_back_what_the_host_says(job, place, show, ctx, fault):
    kind = ctypes.CFUNCTYPE(*[ctypes.c_int64] * 5)
    add = kind(lambda a, b, c, d: a + b - 100)
    handler = pyshmem.register_handler(ctypes.cast(add, ctypes.c_void_p).value)
    found = place(np.zeros(3, np.int64))
    ask_host[(3,)](found, int(handler), ctx)
    assert show(found).tolist() == [-100, -89, -78]
    pyshmem.unregister_handler(handler)
    message = fault(lambda: ask_host[(1,)](found, int(handler), ctx))
    assert "not registered" in message


@triton.jit
def wrong_request(data, narrow, sig, ctx, WHAT: tl.constexpr):
    if WHAT == "print a tile":
        shmem.print("tile", tl.arange(0, 4), ctx)
    elif WHAT == "call with a tile":
        shmem.call(1, tl.arange(0, 4), 0, 0, 0, ctx)
    elif WHAT == "chunk of tiles":
        shmem.put_chunk(data + tl.arange(0, 4), data, 1, 0, ctx)
    elif WHAT == "chunk of two dtypes":
        shmem.get_chunk(data, narrow, 1, 0, ctx)
    elif WHAT == "signal of 32 bits":
        shmem.put_chunk(data, data, 1, 0, ctx, narrow)
    elif WHAT == "long label":
        shmem.print("twenty-three bytes, \u00fc\u00fc", 1, ctx)
        shmem.print("twenty-three bytes, \u00fc\u00fc\u00fc", 1, ctx)
    else:
        shmem.print(data, 1, ctx)


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("print a tile", "print shows a number, not a tensor"),
        ("call with a tile", "a request takes numbers and pointers, not tensors"),
        ("chunk of tiles", "a request takes numbers and pointers, not tensors"),
        ("chunk of two dtypes", "dest and source of a chunk are of one dtype"),
        ("signal of 32 bits", "a signal is a 64-bit integer"),
        ("long label", "has 26 bytes; there is room for 24"),
        ("label", "a label is a text"),
    ],
)
def test_what_no_request_can_carry_is_refused_before_it_is_sent(
    job, place, show, ctx, refusal, capfd, what, text
):
    data, narrow, sig = place(np.zeros(8)), place(np.zeros(8, np.int32)), place(np.zeros(1, "i8"))
    assert text in refusal(lambda: wrong_request[(1,)](data, narrow, sig, ctx, WHAT=what))
    many[(1,)](data, place(np.ones(8)), 8, ctx)  # the ring goes on
    assert (show(data) == 1).all()
