# SPDX-License-Identifier: BSD-3-Clause
"""Kernels compiled for the CPU that poll memory in loops of their own, and those that work for long."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

PROGRAM = """
import sys, threading, time
import numpy as np
import pyshmem
from numba import cuda, float64
from pyshmem import device as shmem

@cuda.jit
def spin(flag, out):
    if cuda.grid(1) == 37:
        while flag[0] == 0:
            pass
    out[0] = 1

@cuda.jit
def spin_on_many(flags, out):
    seen = 0
    while seen < 3:
        seen = 0
        for i in range(flags.size):
            if flags[i] != 0:
                seen += 1
    out[0] = seen

@cuda.jit
def steps(n, out):
    x = np.uint64(1)
    for _ in range(n):
        x = x * np.uint64(6364136223846793005) + np.uint64(1)
    out[0] = x

@cuda.jit
def halves(n, out):
    x = 1.0
    while x < n:
        x += 1.0
    out[0] = x

@cuda.jit
def in_memory(n, out):
    while out[0] < n:
        out[0] += 1

@cuda.jit
def the_same_again(n, out):
    # Of what changes much is on the stack, and the loop inside does the same each time.
    rows = cuda.local.array((8, 64), float64)
    for turn in range(n // 512):
        for i in range(64):
            for row in range(8):
                rows[row, i] = rows[(row + 1) % 8, i] * 0.5 + out[0]
    out[0] = rows[3, 5]

@cuda.jit
def waits(sig):
    shmem.signal_wait_until(sig, shmem.CMP_EQ, 1)

def launch(kernel, grid, *arguments):
    stream = pyshmem.streams.Stream() if sys.argv[2] == "stream" else 0
    kernel[*grid, stream](*arguments)
    if stream:
        stream.synchronize()

def for_seconds(kernel, seconds):
    # A kernel of one loop: as many turns as take so long here.
    out, turns = np.zeros(1), 1 << 20
    kernel[1, 1](turns, out)
    while True:
        begin, out[0] = time.perf_counter(), 0
        kernel[1, 1](turns, out)
        took = time.perf_counter() - begin
        if took > 0.05:
            out[0] = 0
            return int(turns * seconds / took), out
        turns *= 2

with pyshmem.init(heap_size="1M", device_heap_size="1M") as job:
    out, sig = np.zeros(1), pyshmem.new_signal(heap="device")
    if sys.argv[1] == "spin":
        launch(spin, (2, 32), np.zeros(1), out)
    elif sys.argv[1] == "spin_on_many":
        launch(spin_on_many, (1, 1), np.zeros(100), out)
    elif sys.argv[1] == "waits":
        threading.Timer(5, lambda: pyshmem.signal_set(sig, 1, 0)).start()
        launch(waits, (1, 1), sig)
    else:
        kernel = globals()[sys.argv[1]]
        launch(kernel, (1, 1), *for_seconds(kernel, 4))
    print("ended")
"""


@pytest.mark.parametrize(
    ("kernel", "where"),
    [
        ("spin", "launch"),
        ("spin_on_many", "stream"),
        pytest.param("spin", "stream", marks=pytest.mark.long),
        pytest.param("spin_on_many", "launch", marks=pytest.mark.long),
    ],
)
def test_a_loop_that_polls_is_told_and_ended(kernel: str, where: str, run_pes: Callable) -> None:
    thread = r"\(1, 0, 0\), thread \(5, 0, 0\)" if kernel == "spin" else ""
    env = {"PYSHMEM_TIMEOUT": "4", "PYSHMEM_REPORT_AFTER": "3"}
    done = run_pes(1, PROGRAM, [kernel, where], device="cpu", env=env)
    told = rf"kernel {kernel} \(program.py:\d+\).*block {thread or '.*'}: it reads the same again"
    assert done.returncode, done.stdout
    assert re.search(told, done.stderr), done.stderr
    assert "for longer than 4 s" in done.stderr or where == "stream"
    assert "use wait_until" in done.stderr
    assert "ended" not in done.stdout


@pytest.mark.parametrize(
    ("kernel", "where"),
    [
        ("in_memory", "launch"),
        ("the_same_again", "stream"),
        *(pytest.param(kernel, "launch", marks=pytest.mark.long) for kernel in ("steps", "halves")),
        *(pytest.param("waits", where, marks=pytest.mark.long) for where in ("launch", "stream")),
    ],
)
def test_a_loop_that_does_something_is_not(kernel: str, where: str, run_pes: Callable) -> None:
    """Nor does it take too long: PYSHMEM_TIMEOUT is for what waits, as who synchronises a stream."""
    short = where == "launch" and kernel != "waits"
    env = {"PYSHMEM_TIMEOUT": "1" if short else "60", "PYSHMEM_REPORT_AFTER": "3"}
    done = run_pes(1, PROGRAM, [kernel, where], device="cpu", env=env, check=True)
    assert "reads the same" not in done.stderr
    assert "ended" in done.stdout
