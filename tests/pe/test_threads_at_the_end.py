# SPDX-License-Identifier: BSD-3-Clause
"""Threads that wait in the library when the job ends: their waits fail, and nothing crashes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

WAITS = {
    "wait_until": "pyshmem.wait_until(word, pyshmem.CMP_EQ, 1)",
    "signal_wait_until": "pyshmem.signal_wait_until(word, pyshmem.CMP_EQ, 1)",
    "wait_until_any": "pyshmem.wait_until_any(word, pyshmem.CMP_EQ, 1)",
    "set_lock": "pyshmem.set_lock(lock)",
    "team_sync": "team.sync()",
    "barrier_all": "pyshmem.barrier_all()",
}

PROGRAM = """
import os, threading, time
import numpy as np
import pyshmem
from pyshmem._core.library import check, ffi, lib

control = os.dup(int(os.environ["PYSHMEM_CONTROL_FD"]))

def until_pe_1_is_in(what):
    text = ffi.new("char[]", 256)
    while not ffi.string(text).decode().startswith("in " + what):
        check(lib.ishmemx_control_describe(control, 1, text, len(text)))
        time.sleep(0.01)

me = pyshmem.init(heap_size="1M").my_pe
word, lock = pyshmem.zeros(1, np.uint64), pyshmem.zeros(1, np.int64)
team = pyshmem.TEAM_WORLD.split_strided(0, 1, 2)
if me == 0:
    pyshmem.set_lock(lock)
pyshmem.barrier_all()
before = threading.Event()

def wait():
    before.set()
    try:
        WAIT
    except pyshmem.NotInitialized as error:
        print(error)

thread = threading.Thread(target=wait, daemon=True)
if me == 1:
    thread.start()
    before.wait()
    until_pe_1_is_in("")
else:  # PE 1 leaves first: its barrier_all, which would meet this PE's finalize, has ended
    until_pe_1_is_in("finalize")
END
"""

FINALIZE = """
pyshmem.finalize()
if me == 1:
    thread.join()
with pyshmem.init(heap_size="1M"):
    pyshmem.barrier_all()
print("end")
"""


def program_of(wait: str, end: str) -> str:
    return PROGRAM.replace("WAIT", WAITS[wait]).replace("END", end)


@pytest.mark.parametrize("wait", WAITS)
def test_finalize_ends_the_waits_of_other_threads(wait: str, run_pes: Callable) -> None:
    program = program_of(wait, FINALIZE)
    done = run_pes(2, program, env={"PYSHMEM_TIMEOUT": "20"}, check=True)
    assert done.stdout.split("\n").count("end") == 2
    assert "another thread finalised pyshmem while this one waited" in done.stdout


@pytest.mark.parametrize("wait", WAITS)
def test_daemon_threads_may_wait_at_exit(wait: str, run_pes: Callable) -> None:
    program = program_of(wait, "print('end')")
    done = run_pes(2, program, env={"PYSHMEM_TIMEOUT": "20"}, check=True)
    assert done.stdout.split("\n").count("end") == 2
    assert done.stderr == ""
