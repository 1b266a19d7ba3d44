# SPDX-License-Identifier: BSD-3-Clause
"""Fetching atomics of kernels that do not wait: the old values are there after quiet."""

from __future__ import annotations

import numpy as np
import pytest
from numba import cuda

import pyshmem
from pyshmem import device as shmem

STANDARD = ("int32", "int64", "uint32", "uint64")
FLOATS = ("float32", "float64")


def with_value(routine):
    @cuda.jit
    def kernel(fetch, dest, value, pe):
        routine(fetch, dest, value, pe)
        shmem.quiet()

    return kernel


def without(routine):
    @cuda.jit
    def kernel(fetch, dest, value, pe):
        routine(fetch, dest, pe)
        shmem.quiet()

    return kernel


#: kernel, new value of old and operand, dtypes
CASES = {
    "atomic_fetch_nbi": (without(shmem.atomic_fetch_nbi), lambda a, b: a, STANDARD + FLOATS),
    "atomic_swap_nbi": (with_value(shmem.atomic_swap_nbi), lambda a, b: b, STANDARD + FLOATS),
    "atomic_fetch_inc_nbi": (without(shmem.atomic_fetch_inc_nbi), lambda a, b: a + 1, STANDARD),
    "atomic_fetch_add_nbi": (with_value(shmem.atomic_fetch_add_nbi), lambda a, b: a + b, STANDARD),
    "atomic_fetch_and_nbi": (with_value(shmem.atomic_fetch_and_nbi), lambda a, b: a & b, STANDARD),
    "atomic_fetch_or_nbi": (with_value(shmem.atomic_fetch_or_nbi), lambda a, b: a | b, STANDARD),
    "atomic_fetch_xor_nbi": (with_value(shmem.atomic_fetch_xor_nbi), lambda a, b: a ^ b, STANDARD),
}


@pytest.mark.parametrize(
    ("name", "dtype"), [(name, dtype) for name, case in CASES.items() for dtype in case[2]]
)
def test_the_old_value_is_there_after_quiet(job, place, show, name, dtype):
    kernel, apply, _ = CASES[name]
    right, left = (job.my_pe + 1) % job.n_pes, (job.my_pe - 1) % job.n_pes
    scalar = np.dtype(dtype).type
    dest = place(np.array([90 + job.my_pe, 5], dtype))
    fetch = place(np.array([1, 7], dtype))
    kernel[1, 1](fetch, dest, scalar(12 + job.my_pe), right)
    got, fetched = show(dest), show(fetch)
    assert got[0] == apply(scalar(90 + job.my_pe), scalar(12 + left)), name
    assert got[1] == 5
    assert fetched.tolist() == [90 + right, 7]


@cuda.jit
def compare_swap(fetch, dest, cond, value, pe):
    shmem.atomic_compare_swap_nbi(fetch, dest, cond, value, pe)
    shmem.quiet()


@pytest.mark.parametrize("dtype", STANDARD)
@pytest.mark.parametrize("matches", [True, False])
def test_compare_swap(job, place, show, dtype, matches):
    right, scalar = (job.my_pe + 1) % job.n_pes, np.dtype(dtype).type
    dest, fetch = place(np.array([7], dtype)), place(np.zeros(1, dtype))
    compare_swap[1, 1](fetch, dest, scalar(7 if matches else 8), scalar(99), right)
    assert show(dest)[0] == (99 if matches else 7)
    assert show(fetch)[0] == 7


@cuda.jit
def draw(tickets, counter, rounds, pe):
    first = cuda.grid(1) * rounds
    for k in range(rounds):
        shmem.atomic_fetch_inc_nbi(tickets[first + k :], counter, pe)
    shmem.quiet()


def test_every_ticket_is_drawn_once_with_many_in_flight(job, place, show):
    threads, rounds = 32, 4
    counter, tickets = place(np.zeros(1, np.int64)), place(np.full(threads * rounds, -1))
    draw[2, threads // 2](tickets, counter, rounds, 0)
    show(counter)
    drawn = [np.empty(threads * rounds, np.int64) for _ in range(job.n_pes)]
    for pe, part in enumerate(drawn):
        pyshmem.get(part, tickets, pe)
    assert sorted(np.concatenate(drawn)) == list(range(threads * rounds * job.n_pes))


@cuda.jit
def fetch_into_local_memory(out, source, pe):
    mine = cuda.local.array(1, np.uint32)
    mine[0] = 0
    shmem.atomic_fetch_nbi(mine, source, pe)
    shmem.quiet()
    out[0] = mine[0]


def test_the_old_value_may_go_to_local_memory(job, place, show):
    right = (job.my_pe + 1) % job.n_pes
    source, out = place(np.array([job.my_pe + 40], np.uint32)), place(np.zeros(1, np.uint32))
    fetch_into_local_memory[1, 1](out, source, right)
    assert show(out)[0] == right + 40
