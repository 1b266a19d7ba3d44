# SPDX-License-Identifier: BSD-3-Clause
"""The library's threads can be told apart, and a fault in one comes to the program's handlers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

NAMES = """
import ctypes, os, signal, sys
import numpy as np
import pyshmem
from numba import cuda
from pyshmem import device as shmem

before = set(os.listdir("/proc/self/task"))
pyshmem.init()
cells = pyshmem.zeros(8, dtype=np.int64, heap="device")

@cuda.jit
def kernel(cells):
    shmem.atomic_inc(cells, 0)

kernel[1, 1](cells)
stream = pyshmem.streams.Stream()
stream.synchronize()
FAULTS = [signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT]
own = {}

def blocked_by(task):
    lines = dict(line.split(":", 1) for line in open(f"/proc/self/task/{task}/status") if ":" in line)
    return int(lines["SigBlk"], 16)

for task in sorted(set(os.listdir("/proc/self/task")) - before):
    name = open(f"/proc/self/task/{task}/comm").read().strip()
    own[name] = blocked_by(task), int(task)
"""


@pytest.mark.parametrize("device", ["sim", "cpu"])
def test_threads_have_names_and_take_a_fault_s_signals_alone(
    run_pes: Callable, device: str
) -> None:
    """At once: nobody sees one as the C library begins it, with all signals blocked."""
    body = """
assert {"pysh-proxy0", "pysh-proxy1"} <= set(own), own
for name, (blocked, _) in own.items():
    assert name.startswith("pysh-"), name
    assert not any(blocked >> (s - 1) & 1 for s in FAULTS), name
    assert blocked >> (signal.SIGINT - 1) & 1 and blocked >> (signal.SIGPIPE - 1) & 1, name
print(sorted(own), flush=True)
pyshmem.finalize()
"""
    settings = {"PYSHMEM_RINGS": "2"}
    run_pes(1, NAMES + body, device=device, env=settings, check=True)


def test_a_fault_in_a_proxy_comes_to_faulthandler(run_pes: Callable) -> None:
    """The signal is sent to the thread, as the kernel does when it stores where it may not."""
    body = """
import faulthandler
faulthandler.enable()
libc = ctypes.CDLL(None)
tgkill = 234 if os.uname().machine == "x86_64" else 131
libc.syscall(tgkill, os.getpid(), own["pysh-proxy0"][1], signal.SIGSEGV)
signal.pause()
"""
    done = run_pes(1, NAMES + body, device="sim")
    assert done.returncode != 0
    assert "Fatal Python error: Segmentation fault" in done.stderr
