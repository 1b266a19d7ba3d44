# SPDX-License-Identifier: BSD-3-Clause
"""What containers forbid: jobs say so, or go on without it."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

FORBIDDEN = Path(__file__).parents[1] / "forbidden.py"

PROGRAM = """
import numpy as np
import pyshmem

job = pyshmem.init(heap_size="16M")
me = job.my_pe
first = pyshmem.heap_info("device").memory
array = pyshmem.full(first >> 2, me, dtype=np.int32, heap="device")
pyshmem.put(array[-1:], np.full(1, 7, np.int32), (me + 1) % job.n_pes)
pyshmem.barrier_all()
print(array[-1], pyshmem.heap_info("device").memory > first)
try:
    pyshmem.register(np.zeros(4))
except pyshmem.UnsupportedError as error:
    print(error)
"""

TOLD = {
    "descriptors": "PE 0 cannot give PE 1 its memory by a Unix socket: Operation not permitted",
    "unix": "by a Unix socket: Operation not permitted",
    "memfd": "memfd_create: Operation not permitted; the host or the container forbids",
}


@pytest.fixture
def run_without(run_command: Callable, tmp_path: Path) -> Callable:
    """The program on two PEs where something is forbidden."""
    if platform.machine() not in ("x86_64", "aarch64"):
        pytest.skip("numbers of calls are not known here")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    run = [sys.executable, "-m", "pyshmem", "run", "-n", "2", "--device", "sim", "--timeout", "60"]
    return lambda what: run_command([sys.executable, str(FORBIDDEN), what, *run, str(program)], 90)


@pytest.mark.parametrize("what", TOLD)
def test_what_a_job_needs_is_named(run_without: Callable, what: str) -> None:
    done = run_without(what)
    assert done.returncode != 0
    assert TOLD[what] in done.stderr, done.stderr


def test_what_registering_needs_is_named_and_heaps_grow(run_without: Callable) -> None:
    done = run_without("copies")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("7 True") == 2, done.stdout
    assert done.stdout.count("(process_vm_writev): kernel.yama.ptrace_scope is to be 0") == 2


def test_datagrams_are_for_heaps_of_gpus_alone(run_without: Callable) -> None:
    """For those see native/test_cuda.py."""
    done = run_without("datagrams")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("7 True") == 2, done.stdout
