# SPDX-License-Identifier: BSD-3-Clause
"""Addresses and sizes that no routine may follow, at near PEs, at far ones and by the network.

All are refused where they are given; peers, the job and the program's handlers of faults live on.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

HEAD = """
    import ctypes, os, signal, sys
    import numpy as np
    import pyshmem
    from pyshmem._core import library

    SET = pyshmem.SIGNAL_SET

    def refused(name, call):
        try:
            call()
        except (ValueError, OverflowError, pyshmem.ShmemError):
            return
        raise SystemExit(f"{name} was taken")

    before = set(os.listdir("/proc/self/task"))
    job = pyshmem.init(heap_size="16M")
    me, n = job.my_pe, job.n_pes
    array = pyshmem.full(64, me, dtype=np.int64)
    first = array.__array_interface__["data"][0]
    signal_word = pyshmem.new_signal()
    own = np.full(8, -1, dtype=np.int64)
    pyshmem.barrier_all()
"""

TAIL = """
    pyshmem.barrier_all()
    assert (array == me).all()
    assert signal_word[0] == 0
    pyshmem.barrier_all()
    pyshmem.put(array[:8], own, (me + 1) % n)  # all goes on
    pyshmem.barrier_all()
    assert (array[:8] == -1).all()
    print("right")
    pyshmem.finalize()
"""

BELOW = """
    for back in 8, 4096, 1 << 20:
        words = (ctypes.c_char * 64).from_address(first - back)
        low = np.frombuffer(words, dtype=np.int64)
        word = low.view(np.uint64)[:1]
        for pe in range(n):
            for name, call in {
                "put": lambda: pyshmem.put(low, own, pe),
                "get": lambda: pyshmem.get(own, low, pe),
                "put_nbi": lambda: pyshmem.put_nbi(low, own, pe),
                "p": lambda: pyshmem.p(low, 1, pe),
                "g": lambda: pyshmem.g(low, pe),
                "iput": lambda: pyshmem.iput(low, own, pe, dst=2, sst=2, nelems=2),
                "atomic_add": lambda: pyshmem.atomic_add(low, 1, pe),
                "atomic_fetch": lambda: pyshmem.atomic_fetch(low, pe),
                "put_signal": lambda: pyshmem.put_signal(low, own, signal_word, 1, SET, pe),
                "its signal": lambda: pyshmem.put_signal(array[:8], own, word, 1, SET, pe),
                "signal_set": lambda: pyshmem.signal_set(word, 1, pe),
            }.items():
                refused(f"{name}, {back} bytes below, PE {pe}", call)
"""

WRAPPING = """
    lib, ctx = library.lib, library.lib.ctx_default()
    for pe in range(n):
        for name, call in {
            "iput": lambda: pyshmem.iput(array, own, pe, dst=2**61, sst=1, nelems=5),
            "iget": lambda: pyshmem.iget(own, array, pe, dst=1, sst=2**60, nelems=8),
            "many": lambda: pyshmem.iput(array, own, pe, dst=1, sst=1, nelems=2**62),
            "nothing apart": lambda: pyshmem.iput(array, own, pe, dst=0, sst=1, nelems=2),
            "ibput": lambda: pyshmem.ibput(array, own, pe, dst=2**62, sst=1, bsize=1, nblocks=3),
            "backwards": lambda: pyshmem.ibput(array, own, pe, dst=-1, sst=1, bsize=1, nblocks=3),
        }.items():
            refused(f"{name}, PE {pe}", call)
        for size in 2**62, 2**63, 2**64 - 8:
            assert lib.ishmemx_put(ctx, first, first, size, pe), size
            assert lib.ishmemx_get(ctx, first, first, size, pe), size
"""

THREADS = """
    faults = [signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT]
    seen = set()
    for task in set(os.listdir("/proc/self/task")) - before:
        folder = f"/proc/self/task/{task}"
        name = open(f"{folder}/comm").read().strip()
        lines = dict(line.split(":", 1) for line in open(f"{folder}/status") if ":" in line)
        if name.startswith("pysh-"):  # UCX has some of its own
            seen.add(name)
            assert not any(int(lines["SigBlk"], 16) >> (number - 1) & 1 for number in faults), name
    assert ("pysh-conduit" in seen) == ("ucx" in sys.argv), seen
"""

CASES = {
    "near": (2, {}, []),
    "far": (3, {"PYSHMEM_NODE_SIZE": "1", "PYSHMEM_CHECK": "1"}, []),
    "ucx": (2, {}, ["--hosts", "localhost:1,localhost:1"]),
}


def _run(case: str, body: str, run_pes: Callable) -> None:
    n, settings, options = CASES[case]
    if case == "ucx":
        pytest.importorskip("libucx")
    env = {"PYSHMEM_TIMEOUT": "30"} | settings
    done = run_pes(n, HEAD + body + TAIL, [case], device="sim", options=options, env=env)
    assert done.stdout.count("right") == n, done.stdout + done.stderr


@pytest.mark.parametrize("case", CASES)
def test_nothing_below_the_first_array_is_reached_at_any_pe(case: str, run_pes: Callable) -> None:
    _run(case, BELOW, run_pes)


@pytest.mark.parametrize("case", CASES)
def test_sizes_that_wrap_are_refused_on_the_way_to_any_pe(case: str, run_pes: Callable) -> None:
    _run(case, WRAPPING, run_pes)


@pytest.mark.parametrize("case", CASES)
def test_threads_of_a_job_of_several_hosts_take_a_faults_signals(
    case: str, run_pes: Callable
) -> None:
    _run(case, THREADS, run_pes)
