# SPDX-License-Identifier: BSD-3-Clause
"""Seconds of a kernel's first launch in a process above those of a plain kernel: one JSON line each.

    python bench/first_launch.py [--compile] [--pes N] [--jobs N] [--case NAME]... [--store KIND]...
                                 [--turn NAME]... [--table]

Each case is a kernel in processes of its own: with the routines compiled there (``none``), and with the
store of compiled routines as text and as objects, each with an empty store (``cold``), with what that
process has left there (``warm``), and from Numba's cache of kernels (``cached``). ``--compile`` makes
machine code for sm_90 in place of launching it, and counts CPU seconds: no GPU is needed. The driver's
folder, where nvJitLink keeps what it has linked, is a case's own, too. ``--table`` ends with a table.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

CASES = (
    "put",
    "put_block",
    "p",
    "signals",
    "barrier",
    "sum_reduce",
    "broadcast",
    "alltoall",
    "four",
)
ELEMENTS = 256
#: In order; the third fills Numba's cache for the fourth.
TURNS = ("cold", "warm", "caching", "cached")


def kernels() -> dict[str, Any]:
    """Each takes an array to write, one to read and a word of signals."""
    from numba import cuda

    from pyshmem import device as shmem

    def plain(dest, source, word):
        dest[0] = source[0]

    def plainer(dest, source, word):
        dest[0] = source[0] + source[1]

    def put(dest, source, word):
        if cuda.threadIdx.x == 0:
            shmem.put(dest, source, (shmem.my_pe() + 1) % shmem.n_pes())

    def put_block(dest, source, word):
        shmem.put_work_group(dest, source, (shmem.my_pe() + 1) % shmem.n_pes())

    def p(dest, source, word):
        if cuda.threadIdx.x == 0:
            shmem.p(dest, source[0], (shmem.my_pe() + 1) % shmem.n_pes())

    def signals(dest, source, word):
        peer = (shmem.my_pe() + 1) % shmem.n_pes()
        shmem.put_signal_work_group(dest, source, word, 1, shmem.SIGNAL_SET, peer)
        if cuda.threadIdx.x == 0:
            shmem.signal_wait_until(word, shmem.CMP_EQ, 1)

    def barrier(dest, source, word):
        shmem.barrier_all_work_group()

    def sum_reduce(dest, source, word):
        shmem.sum_reduce_work_group(shmem.TEAM_WORLD, dest, source, ELEMENTS)

    def broadcast(dest, source, word):
        shmem.broadcast_work_group(shmem.TEAM_WORLD, dest, source, ELEMENTS, 0)

    def alltoall(dest, source, word):
        shmem.alltoall_work_group(shmem.TEAM_WORLD, dest, source, ELEMENTS // 16)

    def four(dest, source, word):
        shmem.put_work_group(dest, source, (shmem.my_pe() + 1) % shmem.n_pes())
        shmem.sum_reduce_work_group(shmem.TEAM_WORLD, dest, source, ELEMENTS)
        shmem.broadcast_work_group(shmem.TEAM_WORLD, dest, source, ELEMENTS, 0)
        shmem.barrier_all_work_group()

    return {name: made for name, made in locals().items() if callable(made)}


def count_compiled() -> list[Any]:
    """Grows by one for each function that goes through Numba's front end."""
    from numba.cuda import compiler

    seen: list[Any] = []
    plain = getattr(compiler, "compile_extra", None)  # none in the simulator

    def compile_extra(*args: Any, **options: Any) -> Any:
        seen.append(options["func"])
        return plain(*args, **options)

    compiler.compile_extra = compile_extra
    return seen


def launch(case: str, debug: bool, cache: bool) -> dict[str, Any]:
    """On a GPU, as a job."""
    import pyshmem
    from pyshmem import device as shmem  # noqa: F401  (before numba)

    # isort: split
    import numpy as np
    from numba import cuda

    made = kernels()
    options = {"debug": True, "opt": False} if debug else {}
    with pyshmem.init() as job:
        memory = [pyshmem.zeros(ELEMENTS, np.float32, heap="device") for _ in range(2)]
        word = pyshmem.zeros(1, np.uint64, heap="device")
        seen = count_compiled()

        def first(name: str) -> tuple[float, float]:
            kernel = cuda.jit(cache=cache, **options)(made[name])
            pyshmem.barrier_all()
            begin = time.perf_counter(), time.process_time()
            kernel[1, 128](*memory, word)
            cuda.synchronize()
            return time.perf_counter() - begin[0], time.process_time() - begin[1]

        first("plain")
        plain, _ = first("plainer")
        del seen[:]
        seconds, cpu = first(case)
        row = {"pe": job.my_pe, "seconds": seconds, "plain": plain, "compiled": len(seen)}
        row["cpu"] = cpu
        pyshmem.barrier_all()
    return row


def make(case: str, debug: bool) -> dict[str, Any]:
    """To machine code for sm_90, as a launch does it."""
    from types import SimpleNamespace

    import pyshmem  # noqa: F401  (before numba)

    # isort: split
    from numba.cuda import codegen, dispatcher, types

    cc = (9, 0)
    device = SimpleNamespace(compute_capability=cc)
    dispatcher.get_current_device = lambda: device
    codegen.devices = SimpleNamespace(get_context=lambda: SimpleNamespace(device=device))
    made, data = kernels(), types.float32[::1]
    seen = count_compiled()

    def first(name: str) -> float:
        begin = time.process_time()
        given = data, data, types.uint64[::1]
        library = dispatcher._Kernel(
            made[name], given, debug=debug, opt=not debug, lto=not debug
        )._codelibrary
        library.get_cubin()
        return time.process_time() - begin

    first("plain")
    plain = first("plainer")
    del seen[:]
    return {"pe": 0, "seconds": first(case), "plain": plain, "compiled": len(seen)}


def child(arguments: argparse.Namespace) -> None:
    """One process: the case, and its row in a file."""
    case, debug = arguments.child.removesuffix("+debug"), arguments.child.endswith("+debug")
    row = make(case, debug) if arguments.compile else launch(case, debug, arguments.cache)
    row["above"] = row["seconds"] - row["plain"]
    Path(arguments.into, f"{row['pe']}.json").write_text(json.dumps(row))


def run(
    arguments: argparse.Namespace, case: str, store: str, folder: Path, cache: bool
) -> list[Any]:
    """The rows of one run."""
    with tempfile.TemporaryDirectory() as into:
        command = [sys.executable]
        if not arguments.compile:
            command += [
                "-m",
                "pyshmem",
                "run",
                "-n",
                str(arguments.pes),
                "--device",
                arguments.device,
            ]
        command += [__file__, "--child", case, "--into", into]
        command += ["--compile"] * arguments.compile + ["--cache"] * cache
        variables = {
            "PYSHMEM_KERNEL_STORE": store,
            "PYSHMEM_CACHE_DIR": str(folder / "store"),
            "NUMBA_CACHE_DIR": str(folder / "numba"),
            "CUDA_CACHE_PATH": str(folder / "driver"),
            "NUMBA_ENABLE_CUDASIM": "0" if arguments.device == "cuda" else "1",
            "PYSHMEM_DEVICE": arguments.device,
        }
        done = subprocess.run(
            command, env=os.environ | variables, capture_output=True, text=True, timeout=120
        )
        if done.returncode:
            return [{"failed": done.stderr[-600:]}]
        return [json.loads(path.read_text()) for path in sorted(Path(into).iterdir())]


def measure(arguments: argparse.Namespace, case: str, store: str) -> list[dict[str, Any]]:
    """All the runs of a case with one kind of store, in order."""
    left_out = {"warm"} if store == "none" else set()
    if arguments.compile or case.endswith("+debug"):
        left_out |= {"caching", "cached"}
    if arguments.turn:
        left_out |= set(TURNS) - set(arguments.turn)
    told: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for turn in TURNS:
            if turn in left_out:
                continue
            for row in run(arguments, case, store, Path(folder), turn in ("caching", "cached")):
                about = {"case": case, "store": store, "turn": turn, "pes": arguments.pes}
                told.append(about | row)
                print(json.dumps(told[-1]), flush=True)
    return told


def print_table(rows: list[dict[str, Any]]) -> None:
    """A line a case and store: the slowest PE's seconds above a plain kernel, by turns."""
    by_case: dict[tuple[str, str], dict[str, list[float]]] = {}
    for row in rows:
        turns = by_case.setdefault((row["case"], row["store"]), {})
        turns.setdefault(row["turn"], []).append(row.get("above", float("nan")))
    print(f"{'seconds above a plain kernel':30}" + "".join(f"{turn:>9}" for turn in TURNS))
    for (case, store), turns in by_case.items():
        seconds = (f"{max(turns[turn]):9.3f}" if turn in turns else " " * 9 for turn in TURNS)
        print(f"{case:22}{store:8}" + "".join(seconds))


def main() -> None:
    """Children in parallel, as many as are asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--compile", action="store_true", help="machine code only: no GPU")
    parser.add_argument("--pes", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="measure so many cases at a time")
    parser.add_argument("--case", action="append", help="NAME or NAME+debug; default all")
    parser.add_argument("--store", action="append", choices=["none", "text", "objects"])
    parser.add_argument("--turn", action="append", choices=TURNS, help="default all that apply")
    parser.add_argument("--table", action="store_true", help="a table behind the lines")
    parser.add_argument("--device", default="cuda", help=argparse.SUPPRESS)  # sim: to try it
    for hidden in ("--child", "--into"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    parser.add_argument("--cache", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments)
        return
    cases = arguments.case or [*CASES, "four+debug"]
    stores = arguments.store or ["none", "text", "objects"]
    with ThreadPoolExecutor(arguments.jobs) as pool:
        runs = [pool.submit(measure, arguments, case, store) for store in stores for case in cases]
        rows = [row for one in runs for row in one.result()]
    if arguments.table:
        print_table(rows)


if __name__ == "__main__":
    main()
