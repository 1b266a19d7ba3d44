# SPDX-License-Identifier: BSD-3-Clause
"""More threads than a ring has slots, on two PEs, and every value is checked.

Arguments: turns, lanes of a warp that send, blocks, threads. The ring is that of ``PYSHMEM_RINGS`` and
``PYSHMEM_RING_SLOTS``; with ``PYSHMEM_P2P=0`` nothing goes past it. Whoever calls it gives it a time
limit: what this looks for is a kernel that never ends.
"""

import sys
import time

import pyshmem  # before numba

# isort: split
import numpy as np
from numba import cuda

from pyshmem import device as shmem

FETCHES = 4  # of a thread
WORDS = 4  # of a thread's put


@cuda.jit(cache=True)  # one compilation for all runs of a machine
def everything(counters, cells, dest, source, signal, tickets, answers, peer, lanes):
    if cuda.threadIdx.x % 32 < lanes:
        thread = cuda.grid(1)
        for k in range(FETCHES):
            tickets[thread * FETCHES + k] = shmem.atomic_fetch_add(counters, 1, 0)
        shmem.p(cells[thread:], 3 * thread + shmem.my_pe(), peer)
        shmem.quiet()
        answers[thread] = shmem.g(cells[thread:], peer)
        at = thread * WORDS
        piece, words = dest[at : at + WORDS], source[at : at + WORDS]
        shmem.put_signal(piece, words, signal, 1, shmem.SIGNAL_ADD, peer)
        shmem.atomic_inc(counters[1:], peer)


def turn(job, lanes, blocks, threads):
    """One launch on each PE; what was wrong with it, and its seconds."""
    peer, n = 1 - job.my_pe, blocks * threads
    sends = np.arange(n) % threads % 32 < lanes
    count, numbers = int(sends.sum()), np.arange(WORDS * n) * 7
    counters, cells, dest = (
        pyshmem.zeros(k, dtype=np.int64, heap="host") for k in (2, n, WORDS * n)
    )
    source, signal = (
        pyshmem.zeros(WORDS * n, dtype=np.int64, heap="host"),
        pyshmem.new_signal(heap="host"),
    )
    source[:] = numbers + job.my_pe
    tickets, answers = cuda.to_device(np.full(FETCHES * n, -1)), cuda.to_device(np.full(n, -1))
    arguments = [shmem.as_argument(array) for array in (counters, cells, dest, source, signal)]
    pyshmem.barrier_all()
    begin = time.perf_counter()
    everything[blocks, threads](*arguments, tickets, answers, peer, lanes)
    cuda.synchronize()
    seconds = time.perf_counter() - begin
    pyshmem.barrier_all()
    drawn = tickets.copy_to_host().reshape(n, FETCHES)[sends]
    sent = np.repeat(sends, WORDS)
    wrong = {
        "tickets drawn twice": drawn.size - np.unique(drawn).size,
        "tickets out of range": int(((drawn < 0) | (drawn >= 2 * FETCHES * count)).sum()),
        "tickets out of order": int((np.diff(drawn) <= 0).sum()),
        "counters": int(counters[1] != count)
        + int(job.my_pe == 0 and counters[0] != 2 * FETCHES * count),
        "cells": int((np.asarray(cells)[sends] != (3 * np.arange(n) + peer)[sends]).sum()),
        "answers": int(
            (answers.copy_to_host()[sends] != (3 * np.arange(n) + job.my_pe)[sends]).sum()
        ),
        "words put": int((np.asarray(dest)[sent] != (numbers + peer)[sent]).sum()),
        "signals": abs(int(signal[0]) - count),
    }
    pyshmem.barrier_all()
    for array in (counters, cells, dest, source, signal):
        pyshmem.free(array)
    return {what: many for what, many in wrong.items() if many}, seconds, count * (FETCHES + 5)


def main() -> None:
    turns, lanes, blocks, threads = map(int, sys.argv[1:5])
    with pyshmem.init() as job:
        if job.n_pes != 2:
            sys.exit(f"few_slots.py runs on 2 PEs, not on {job.n_pes}")
        for number in range(turns):
            wrong, seconds, requests = turn(job, lanes, blocks, threads)
            if wrong:
                sys.exit(f"PE {job.my_pe}, turn {number}: wrong {wrong}")
        rate = requests / seconds / 1e6
        print(f"PE {job.my_pe}: right, {rate:.3f} M requests/s in the last turn", flush=True)


if __name__ == "__main__":
    main()
