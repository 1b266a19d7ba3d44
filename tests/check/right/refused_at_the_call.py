# SPDX-License-Identifier: BSD-3-Clause
"""What a routine refuses, the call raises that asks for it, and nothing arrives. PEs: 2."""

from collections.abc import Callable

import numpy as np

import pyshmem

REFUSED = (TypeError, ValueError, OverflowError)


def is_refused(routine: Callable[..., object], *arguments: object, **named: object) -> None:
    try:
        routine(*arguments, **named)
    except REFUSED:
        return
    raise AssertionError(f"{routine} takes {arguments} {named}")


with pyshmem.init(device="none") as job:
    other = 1 - job.my_pe
    words, floats = pyshmem.zeros(8, np.int64), pyshmem.zeros(8, np.float32)
    texts, small = pyshmem.zeros(8, "S4"), pyshmem.zeros(8, np.int8)
    sig, old = pyshmem.new_signal(), np.zeros(1, np.int64)
    long, plain = np.ones(9, np.int64), np.ones(8, np.int64)
    SET = pyshmem.SIGNAL_SET
    for put in (pyshmem.put, pyshmem.put_nbi):
        is_refused(put, words, long, other)
        is_refused(put, words, plain, other, nelems=9)
        is_refused(put, words, plain, other, nelems=-1)
        is_refused(put, words, plain.astype(np.int32), other)
        is_refused(put, words, plain[::2], other)
        is_refused(put, words, plain, other, ctx=7)
        is_refused(put, words, None, other)
    is_refused(pyshmem.get_nbi, plain.astype(np.int32), words, other)
    is_refused(pyshmem.get_nbi, long, words, other)
    is_refused(pyshmem.iput, words, plain, other, sst=2, nelems=5)
    is_refused(pyshmem.iput, words, plain, other, dst=3)
    is_refused(pyshmem.iput, words, plain.astype(np.int32), other)
    is_refused(pyshmem.ibput, words, plain, other, bsize=3, dst=3, nblocks=3)
    is_refused(pyshmem.p, small, 300, other)
    is_refused(pyshmem.p, words, 1.5, other)
    is_refused(pyshmem.p, floats, 1e300, other)
    is_refused(pyshmem.p, words, "5", other)
    for put in (pyshmem.put_signal, pyshmem.put_signal_nbi):
        is_refused(put, words, plain, words, 1, SET, other)
        is_refused(put, words, plain, sig, -1, SET, other)
        is_refused(put, words, plain, sig, 1, 9, other)
        is_refused(put, words, long, sig, 1, SET, other)
    is_refused(pyshmem.signal_set, words, 1, other)
    is_refused(pyshmem.signal_add, sig, 1 << 64, other)
    is_refused(pyshmem.signal_op, sig, 1, 9, other)
    for name in ("and", "or", "xor"):
        is_refused(getattr(pyshmem, f"atomic_{name}"), floats, 1, other)
        is_refused(getattr(pyshmem, f"atomic_fetch_{name}_nbi"), old, words, 1 << 64, other)
    is_refused(pyshmem.atomic_set, texts, 1, other)
    is_refused(pyshmem.atomic_add, small, 1, other)
    is_refused(pyshmem.atomic_inc, small, other)
    is_refused(pyshmem.atomic_set, words, 1 << 63, other)
    is_refused(pyshmem.atomic_fetch_add_nbi, old[:0], words, 1, other)
    is_refused(pyshmem.atomic_fetch_inc_nbi, old.astype(np.int32), words, other)
    is_refused(pyshmem.atomic_fetch_xor_nbi, floats, floats, 1, other)
    is_refused(pyshmem.atomic_fetch_and, floats, 1, other)
    is_refused(pyshmem.atomic_swap, words, 1.5, other)
    is_refused(pyshmem.atomic_compare_swap_nbi, old, words, 1.5, 1, other)
    pyshmem.atomic_add(floats, 0.5, other)
    pyshmem.atomic_inc(floats, other)
    pyshmem.barrier_all()
    print(words.any(), small.any(), floats[0], sig[0])
    assert not words.any()
    assert floats[0] == 1.5
