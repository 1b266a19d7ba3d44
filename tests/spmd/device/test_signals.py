# SPDX-License-Identifier: BSD-3-Clause
"""Signals, waits, ordering and the meeting of all PEs, from kernels."""

from __future__ import annotations

import numpy as np
import pytest
from numba import cuda

import pyshmem
from pyshmem import device as shmem

SCOPES = {"": 1, "_warp": 32, "_work_group": 96}


def pass_on(put_signal, wait):
    @cuda.jit
    def kernel(dest, source, copy, sig, value, sig_op, right):
        put_signal(dest, source, sig, value, sig_op, right)
        seen = wait(sig, shmem.CMP_EQ, value)
        i = cuda.threadIdx.x
        while i < dest.size:  # the signal proves the data, for the whole group
            copy[i] = dest[i] * np.int32(seen == value)
            i += cuda.blockDim.x

    return kernel


PASS_ON = {
    (nbi, scope): pass_on(
        getattr(shmem, f"put_signal{nbi}{scope}"), getattr(shmem, f"signal_wait_until{scope}")
    )
    for nbi in ("", "_nbi")
    for scope in SCOPES
}


@pytest.mark.parametrize("sig_op", [shmem.SIGNAL_SET, shmem.SIGNAL_ADD])
@pytest.mark.parametrize(("nbi", "scope"), PASS_ON)
def test_whoever_sees_the_signal_sees_the_data(job, heap, place, show, nbi, scope, sig_op):
    right, left = (job.my_pe + 1) % job.n_pes, (job.my_pe - 1) % job.n_pes
    source = place(np.arange(500, dtype=np.int32) + 1000 * job.my_pe)
    dest, copy = place(np.zeros(500, np.int32)), place(np.zeros(500, np.int32))
    sig = pyshmem.new_signal(heap=heap)
    pyshmem.barrier_all()
    PASS_ON[nbi, scope][1, SCOPES[scope]](dest, source, copy, sig, 7, sig_op, right)
    assert (show(copy) == np.arange(500) + 1000 * left).all()


def test_put_signal_of_nothing_still_signals(job, heap, place, show):
    dest, copy = place(np.zeros(0, np.int32)), place(np.zeros(1, np.int32))
    sig = pyshmem.new_signal(heap=heap)
    pyshmem.barrier_all()
    right = (job.my_pe + 1) % job.n_pes
    PASS_ON["", ""][1, 1](copy[:0], copy[:0], copy, sig, 3, shmem.SIGNAL_SET, right)
    assert show(sig)[0] == 3
    assert dest.size == 0


@cuda.jit
def add_signals(sig, pe):
    shmem.signal_op(sig, 1, shmem.SIGNAL_ADD, pe)
    shmem.signal_add(sig, 1, pe)


@cuda.jit
def wait_for(sig, cmp, value, seen):
    seen[0] = shmem.signal_wait_until(sig, cmp, value)
    seen[1] = shmem.signal_fetch(sig)


def test_signals_add_up_from_all_pes(job, heap, place, show):
    sig, seen = pyshmem.new_signal(heap=heap), place(np.zeros(2, np.uint64))
    pyshmem.barrier_all()
    add_signals[1, 8](sig, 0)
    if job.my_pe == 0:
        wait_for[1, 1](sig, shmem.CMP_EQ, 16 * job.n_pes, seen)
    got = show(seen)
    if job.my_pe == 0:
        assert (got == 16 * job.n_pes).all()


@cuda.jit
def compare(ivar, value, waited, tested):
    cmp = 1 + cuda.threadIdx.x
    tested[cuda.threadIdx.x] = shmem.test(ivar, cmp, value)
    if tested[cuda.threadIdx.x]:
        waited[cuda.threadIdx.x] = shmem.wait_until(ivar, cmp, value)


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint32", "uint64"])
@pytest.mark.parametrize("value", [-1, 5, 6])
def test_comparisons_use_the_sign_of_the_dtype(job, place, show, dtype, value):
    scalar = np.array([value]).astype(dtype)[0]
    ivar, waited = place(np.array([5], dtype)), place(np.zeros(6, dtype))
    tested = place(np.zeros(6, np.int32))
    compare[1, 6](ivar, scalar, waited, tested)
    five = np.dtype(dtype).type(5)
    expected = [
        five == scalar,
        five != scalar,
        five > scalar,
        five >= scalar,
        five < scalar,
        five <= scalar,
    ]
    assert show(tested).astype(bool).tolist() == [bool(e) for e in expected]
    assert show(waited).tolist() == [5 if e else 0 for e in expected]


@cuda.jit
def wait_for_later_block(flag, out):
    if cuda.blockIdx.x == 0:
        out[0] = shmem.wait_until_work_group(flag, shmem.CMP_NE, 0)
    elif cuda.blockIdx.x == cuda.gridDim.x - 1 and cuda.threadIdx.x == 0:
        shmem.atomic_set(flag, 42, shmem.my_pe())


def test_a_block_may_wait_for_a_later_one(job, place, show):
    flag, out = place(np.zeros(1, np.int64)), place(np.zeros(1, np.int64))
    wait_for_later_block[4, 32](flag, out)
    assert show(out)[0] == 42


def test_fence_orders_puts_to_one_pe(job, place, show):
    dest, flag = place(np.zeros(21, np.int64)), place(np.zeros(1, np.int64))
    violations = place(np.zeros(1, np.int64))
    right = (job.my_pe + 1) % job.n_pes
    order_and_watch[2, 1](dest, flag, violations, right)
    assert show(violations)[0] == 0
    assert (show(dest) == np.arange(21)).all()


@cuda.jit
def order_and_watch(dest, flag, violations, right):
    if cuda.blockIdx.x == 0:
        for i in range(1, 21):
            shmem.p(dest[i:], i, right)
            shmem.fence()
            shmem.atomic_set(flag, i, right)
    else:
        last = np.int64(0)
        while last < 20:
            last = shmem.wait_until(flag, shmem.CMP_GT, last)
            if shmem.g(dest[last:], shmem.my_pe()) != last:
                violations[0] += 1


def meet(routine):
    @cuda.jit
    def kernel(dest, seen, rounds):
        me, n = shmem.my_pe(), shmem.n_pes()
        right = (me + 1) % n
        for k in range(1, rounds + 1):
            if cuda.threadIdx.x == 0:
                shmem.p(dest, k * 100 + me, right)
            routine()
            if cuda.threadIdx.x == 0:
                seen[k - 1] = shmem.g(dest, me)
            routine()

    return kernel


MEET = {scope: meet(getattr(shmem, "barrier_all" + scope)) for scope in SCOPES}


@pytest.mark.parametrize("scope", SCOPES)
def test_barrier_completes_puts_of_all_pes(job, place, show, scope):
    rounds = 50 if job.device == "cuda" else 5
    dest, seen = place(np.zeros(1, np.int64)), place(np.zeros(rounds, np.int64))
    MEET[scope][1, SCOPES[scope]](dest, seen, rounds)
    left = (job.my_pe - 1) % job.n_pes
    assert (show(seen) == np.arange(1, rounds + 1) * 100 + left).all()


def sync_only(routine):
    @cuda.jit
    def kernel(mine, seen):
        me, n = shmem.my_pe(), shmem.n_pes()
        if cuda.threadIdx.x == 0:
            mine[0] = me + 1  # a plain store to the own memory: what sync_all makes visible
        routine()
        if cuda.threadIdx.x < n:
            seen[cuda.threadIdx.x] = shmem.g(mine, cuda.threadIdx.x)
        if cuda.blockDim.x == 1:
            for pe in range(n):
                seen[pe] = shmem.g(mine, pe)

    return kernel


SYNC = {scope: sync_only(getattr(shmem, "sync_all" + scope)) for scope in SCOPES}


@pytest.mark.parametrize("scope", SCOPES)
def test_sync_makes_own_stores_visible_to_all(job, place, show, scope):
    mine, seen = place(np.zeros(1, np.int64)), place(np.zeros(job.n_pes, np.int64))
    SYNC[scope][1, SCOPES[scope]](mine, seen)
    assert (show(seen) == np.arange(1, job.n_pes + 1)).all()


@cuda.jit
def who(out):
    out[0], out[1] = shmem.my_pe(), shmem.n_pes()


def test_kernels_know_their_place(job, place, show):
    out = place(np.zeros(2, np.int32))
    who[1, 1](out)
    assert show(out).tolist() == [job.my_pe, job.n_pes]


@cuda.jit
def fetch_as_many_as_told(dest, source, sig, pe):
    count = shmem.signal_wait_until_work_group(sig, shmem.CMP_NE, 0)  # uint64
    shmem.get_work_group(dest, source, pe, count)
    if cuda.threadIdx.x == 0:
        shmem.put(dest[40:], source[40:], shmem.my_pe(), count)


@pytest.mark.parametrize("count", [20, 21])
def test_a_signal_is_a_count(job, heap, place, show, count):
    dest, source = place(np.zeros(64, np.float32)), place(np.arange(1, 65, dtype=np.float32))
    sig = pyshmem.new_signal(heap=heap)
    pyshmem.signal_set(sig, count, job.my_pe)
    fetch_as_many_as_told[1, 4](dest, source, sig, (job.my_pe + 1) % job.n_pes)
    expected = np.zeros(64)
    expected[:count], expected[40 : 40 + count] = range(1, count + 1), range(41, 41 + count)
    assert (show(dest) == expected).all()
