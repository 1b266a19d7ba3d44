# SPDX-License-Identifier: BSD-3-Clause
"""What ``network_pe.c`` measures, from Python: each of two PEs on two hosts runs it.

Started by ``network.py``. PE 0 prints one JSON line a figure: of ``calls`` samples the median, and
tenths from both ends. Of ``init`` both PEs do, as who comes first waits for the other.
"""

import json
import math
import sys
import time
from collections.abc import Callable

import numpy as np

CALLS, WINDOWS, WINDOW, BUSY_GETS = 1500, 20, 16, 300
BYTES = 1 << 20
BUSY_SECONDS, HEAD_START, APART = 1.0, 0.1, 0.001


def emit(op: str, nbytes: int, samples: list[float]) -> None:
    samples.sort()
    n = len(samples)
    us = {"us": n // 2, "tenth_us": n // 10, "nine_tenths_us": n * 9 // 10}
    row = {"op": op, "provider": "pyshmem, Python", "bytes": nbytes, "pes": 2}
    row |= {name: round(samples[at] * 1e6, 2) for name, at in us.items()}
    print(json.dumps(row | {"calls": n}), flush=True)


def timed(
    call: Callable[[], object], calls: int, per_call: int, warm: int, until: float, apart: float
) -> list[float]:
    """Seconds of each call, ``apart`` from the last; none begins after ``until``."""
    samples = []
    for i in range(-warm, calls):
        compute(apart)
        begin = time.perf_counter()
        if begin > until:
            break
        call()
        if i >= 0:
            samples.append((time.perf_counter() - begin) / per_call)
    return samples


def compute(seconds: float) -> None:
    """Without a call of the library."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def main() -> None:
    me = pyshmem.my_pe()
    words, block = pyshmem.zeros(8, np.int64), pyshmem.zeros(BYTES, np.uint8)
    flag, word = words[:1], words[1:2]
    rally = 0

    def put() -> None:
        nonlocal rally
        rally += 1
        if me == 0:
            pyshmem.p(flag, rally, 1)
        pyshmem.wait_until(flag, pyshmem.CMP_GE, rally)
        if me == 1:
            pyshmem.p(flag, rally, 0)

    def put_quiet() -> None:
        pyshmem.p(word, 7, 1)
        pyshmem.quiet()

    def put_window() -> None:
        for _ in range(WINDOW):
            pyshmem.put_nbi(block, block, 1)
        pyshmem.quiet()

    def get() -> None:
        pyshmem.g(word, 1)

    def fetch_add() -> None:
        pyshmem.atomic_fetch_add(word, 1, 1)

    figures: list[tuple[str, int, Callable[[], object], int, int]] = [
        ("put", 8, put, CALLS, 2),
        ("put_quiet", 8, put_quiet, CALLS, 1),
        ("get", 8, get, CALLS, 1),
        ("fetch_add", 8, fetch_add, CALLS, 1),
        ("barrier_all", 0, pyshmem.barrier_all, CALLS, 1),
        ("put", BYTES, put_window, WINDOWS, WINDOW),
        ("busy_get", 8, get, BUSY_GETS, 1),
        ("busy_get_apart", 8, get, BUSY_GETS, 1),
    ]
    for op, nbytes, call, calls, per_call in figures:
        both = call in (put, pyshmem.barrier_all)
        busy, apart = op.startswith("busy_get"), APART if op == "busy_get_apart" else 0.0
        pyshmem.barrier_all()
        until = time.perf_counter() + BUSY_SECONDS if busy else math.inf
        if busy:
            compute(HEAD_START if me == 0 else BUSY_SECONDS)
        warm = 0 if busy else calls // 10
        samples = timed(call, calls, per_call, warm, until, apart) if me == 0 or both else []
        pyshmem.barrier_all()
        if me == 0:
            emit(op, nbytes, samples)


if __name__ == "__main__":
    import pyshmem

    began = time.perf_counter()
    pyshmem.init(heap_size="64M")
    emit("init", 0, [time.perf_counter() - began])
    if sys.argv[1:] != ["init"]:
        main()
    pyshmem.finalize()
