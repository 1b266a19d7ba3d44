# SPDX-License-Identifier: BSD-3-Clause
"""Kernels as users of Triton-distributed write them, with the import changed."""

from __future__ import annotations

import numpy as np
import pytest
import triton
import triton.language as tl

import pyshmem
import pyshmem.triton.dist as dl


@triton.jit
def producer_consumer(buffer, source, dest, flags, rounds, SLOTS: tl.constexpr, B: tl.constexpr):
    """Program 0 fills slots at the right neighbour, program 1 empties the own ones, in a circle."""
    rank, n = dl.rank(), dl.num_ranks()
    right, left = (rank + 1) % n, (rank + n - 1) % n
    full, empty = flags, flags + SLOTS
    offs = tl.arange(0, B)
    for turn in range(rounds):
        slot = turn % SLOTS
        if tl.program_id(0) == 0:
            token = dl.wait(empty + slot, 1, "sys", "acquire", waitValue=turn // SLOTS)
            source = dl.consume_token(source, token)
            remote = dl.symm_at(buffer, right) + slot * B
            tl.store(remote + offs, tl.load(source + turn * B + offs))
            dl.notify(full + slot, right, signal=turn // SLOTS + 1, sig_op="set")
        else:
            token = dl.wait(full + slot, 1, "sys", "acquire", waitValue=turn // SLOTS + 1)
            buffer = dl.consume_token(buffer, token)
            tl.store(dest + turn * B + offs, tl.load(buffer + slot * B + offs, volatile=True))
            dl.notify(empty + slot, left, signal=1, sig_op="add", comm_scope="intra_node")


@triton.jit
def point_at_right(buffer):
    tl.store(dl.symm_at(buffer, (dl.rank() + 1) % dl.num_ranks()), 1)


@pytest.mark.parametrize("flag", ["int32", "uint64"])
def test_a_queue_between_neighbours(job, place, show, fault, near, flag):
    rounds = 7
    source = place(np.arange(rounds * 32, dtype=np.float32) + 1000 * job.my_pe)
    buffer, dest = place(np.zeros(2 * 32, np.float32)), place(np.zeros(rounds * 32, np.float32))
    flags = place(np.zeros(4, flag))
    pyshmem.barrier_all()
    if not near and job.n_pes > 1:  # a pointer of a peer is all that such kernels have
        message = fault(lambda: point_at_right[(1,)](buffer))
        assert "is not reached by loads and stores" in message
        return
    producer_consumer[(2,)](buffer, source, dest, flags, rounds, SLOTS=2, B=32)
    left = (job.my_pe - 1) % job.n_pes
    assert (show(dest) == np.arange(rounds * 32) + 1000 * left).all()


@triton.jit
def all_gather(symm, sig, nbytes, stride, ROUNDS: tl.constexpr):
    """Everybody puts its part to all; libshmem_device's names."""
    me, n = dl.my_pe(), dl.n_pes()
    for k in range(1, n):
        peer = (me + k) % n
        mine = symm + me * stride
        dl.putmem_signal_block(mine, mine, nbytes, sig + me, 5, dl.SIGNAL_SET, peer)
    for k in range(1, n):
        dl.signal_wait_until(sig + (me + k) % n, dl.CMP_EQ, 5)
    dl.barrier_all_block()


@pytest.mark.parametrize("nbytes", [16, 5, 9000])
def test_parts_of_any_size_are_gathered(job, place, show, nbytes):
    stride, n = 9008, job.n_pes
    values = np.zeros(n * stride, np.int8)
    values[job.my_pe * stride :][:nbytes] = job.my_pe + 1
    symm, sig = place(values), place(np.zeros(n, np.uint64))
    pyshmem.barrier_all()
    all_gather[(1,)](symm, sig, nbytes, stride, ROUNDS=1)
    got = show(symm).reshape(n, stride)
    for pe in range(n):
        assert (got[pe, :nbytes] == pe + 1).all()
        assert (got[pe, nbytes:] == 0).all()


@triton.jit
def fetch_right(dest, source, nbytes):
    right = (dl.rank() + 1) % dl.num_ranks()
    dl.getmem_block(dest, source, nbytes, right)
    dl.quiet_block()


def test_bytes_are_fetched(job, place, show):
    source, dest = place(np.full(100, job.my_pe, np.int16)), place(np.zeros(100, np.int16))
    pyshmem.barrier_all()
    fetch_right[(1,)](dest, source, 200)
    assert (show(dest) == (job.my_pe + 1) % job.n_pes).all()


@triton.jit
def off_the_heap(inside, outside, nbytes, WHAT: tl.constexpr):
    right = (dl.rank() + 1) % dl.num_ranks()
    if WHAT == "put":
        dl.putmem_block(outside, inside, nbytes, right)
    elif WHAT == "get":
        dl.getmem_block(inside, outside, nbytes, right)
    else:
        dl.notify(outside, right, sig_op=WHAT)


@pytest.mark.parametrize("what", ["put", "get", "set", "add"])
def test_the_interpreter_checks_where_bytes_go(job, place, show, fault, near, what):
    if job.device == "cuda" or not near:
        pytest.skip("on GPUs only the checking mode looks, out of reach the host")
    inside, outside = place(np.zeros(4, np.int64)), np.zeros(4, np.int64)
    message = fault(lambda: off_the_heap[(1,)](inside, outside, 32, WHAT=what))
    routine, nbytes = {"put": ("put", 32), "get": ("get", 32)}.get(what, ("signal_op", 8))
    assert f"device routine {routine}: {nbytes} bytes at" in message
    assert "are not on the device heap" in message
    assert not show(inside).any()
