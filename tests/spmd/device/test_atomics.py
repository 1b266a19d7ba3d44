# SPDX-License-Identifier: BSD-3-Clause
"""Atomics from kernels: each operation against plain arithmetic, and under contention of all PEs."""

from __future__ import annotations

import numpy as np
import pytest
from numba import cuda

import pyshmem
from pyshmem import device as shmem

STANDARD = ("int32", "int64", "uint32", "uint64")
FLOATS = ("float32", "float64")


def fetching(routine):
    @cuda.jit
    def kernel(dest, value, pe, old):
        old[0] = routine(dest, value, pe)

    return kernel


def updating(routine):
    @cuda.jit
    def kernel(dest, value, pe, old):
        routine(dest, value, pe)

    return kernel


def inc(routine, fetch):
    @cuda.jit
    def fetch_kernel(dest, value, pe, old):
        old[0] = routine(dest, pe)

    @cuda.jit
    def kernel(dest, value, pe, old):
        routine(dest, pe)

    return fetch_kernel if fetch else kernel


@cuda.jit
def fetch_kernel(dest, value, pe, old):
    old[0] = shmem.atomic_fetch(dest, pe)


#: name -> (kernel, new value of old and operand, dtypes, does it fetch)
CASES = {
    "atomic_fetch": (fetch_kernel, lambda a, b: a, STANDARD + FLOATS, True),
    "atomic_set": (updating(shmem.atomic_set), lambda a, b: b, STANDARD + FLOATS, False),
    "atomic_swap": (fetching(shmem.atomic_swap), lambda a, b: b, STANDARD + FLOATS, True),
    "atomic_inc": (inc(shmem.atomic_inc, False), lambda a, b: a + 1, STANDARD, False),
    "atomic_fetch_inc": (inc(shmem.atomic_fetch_inc, True), lambda a, b: a + 1, STANDARD, True),
    "atomic_add": (updating(shmem.atomic_add), lambda a, b: a + b, STANDARD + FLOATS, False),
    "atomic_fetch_add": (
        fetching(shmem.atomic_fetch_add),
        lambda a, b: a + b,
        STANDARD + FLOATS,
        True,
    ),
    "atomic_and": (updating(shmem.atomic_and), lambda a, b: a & b, STANDARD, False),
    "atomic_fetch_and": (fetching(shmem.atomic_fetch_and), lambda a, b: a & b, STANDARD, True),
    "atomic_or": (updating(shmem.atomic_or), lambda a, b: a | b, STANDARD, False),
    "atomic_fetch_or": (fetching(shmem.atomic_fetch_or), lambda a, b: a | b, STANDARD, True),
    "atomic_xor": (updating(shmem.atomic_xor), lambda a, b: a ^ b, STANDARD, False),
    "atomic_fetch_xor": (fetching(shmem.atomic_fetch_xor), lambda a, b: a ^ b, STANDARD, True),
}


@pytest.mark.parametrize(
    ("name", "dtype"), [(name, dtype) for name, case in CASES.items() for dtype in case[2]]
)
def test_atomic_changes_the_peers_element(job, place, show, name, dtype):
    kernel, apply, _, fetches = CASES[name]
    right, left = (job.my_pe + 1) % job.n_pes, (job.my_pe - 1) % job.n_pes
    scalar = np.dtype(dtype).type
    mine = scalar(90 + job.my_pe)
    dest, old = place(np.array([mine, 5], dtype)), place(np.zeros(1, dtype))
    kernel[1, 1](dest, scalar(12 + job.my_pe), right, old)
    got, fetched = show(dest), show(old)
    assert got[0] == apply(mine, scalar(12 + left)), name
    assert got[1] == 5
    if fetches:
        assert fetched[0] == 90 + right


@cuda.jit
def compare_swap_kernel(dest, cond, value, pe, old):
    old[0] = shmem.atomic_compare_swap(dest, cond, value, pe)


@pytest.mark.parametrize("dtype", STANDARD)
@pytest.mark.parametrize("matches", [True, False])
def test_compare_swap(job, place, show, dtype, matches):
    right = (job.my_pe + 1) % job.n_pes
    scalar = np.dtype(dtype).type
    dest, old = place(np.array([7], dtype)), place(np.zeros(1, dtype))
    compare_swap_kernel[1, 1](dest, scalar(7 if matches else 8), scalar(99), right, old)
    assert show(dest)[0] == (99 if matches else 7)
    assert show(old)[0] == 7


@cuda.jit
def count(counter, tickets, pe):
    tickets[cuda.grid(1)] = shmem.atomic_fetch_add(counter, 1, pe)


@pytest.mark.parametrize("dtype", STANDARD)
def test_every_ticket_is_drawn_once_when_all_pes_draw_from_one(job, place, show, dtype):
    threads = 128
    counter, tickets = place(np.zeros(1, dtype)), place(np.zeros(threads, dtype))
    count[2, threads // 2](counter, tickets, 0)
    show(counter)
    drawn = [np.empty(threads, dtype) for _ in range(job.n_pes)]
    for pe, part in enumerate(drawn):
        pyshmem.get(part, tickets, pe)
    assert sorted(np.concatenate(drawn)) == list(range(threads * job.n_pes))


@cuda.jit
def wrap(dest, pe):
    shmem.atomic_add(dest, 3, pe)


@pytest.mark.parametrize(
    ("dtype", "start"), [("uint32", 2**32 - 1), ("int32", 2**31 - 1), ("uint64", 2**64 - 2)]
)
def test_integers_wrap_round(job, place, show, dtype, start):
    dest = place(np.array([start], dtype))
    wrap[1, 1](dest, job.my_pe)
    bits = 8 * np.dtype(dtype).itemsize
    assert int(show(dest)[0]) % 2**bits == (start + 3) % 2**bits


def test_kernel_and_host_atomics_meet_in_one_counter(job, place, show):
    counter, tickets = place(np.zeros(1, np.int64)), place(np.zeros(64, np.int64))
    count[1, 64](counter, tickets, 0)
    for _ in range(10):
        pyshmem.atomic_add(counter, 1, 0)
    total = show(counter)
    if job.my_pe == 0:
        assert total[0] == 74 * job.n_pes
