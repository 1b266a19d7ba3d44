# SPDX-License-Identifier: BSD-3-Clause
"""Kernels without a GPU: compiled for the CPU (device cpu) beside interpreted ones (device sim).

    python bench/cpu_kernels.py [--seconds S]

A five-point stencil, a cell a thread, and a tree reduction in shared memory, a barrier a step: cells and
thread-barriers a second, the best of several launches, and what a first launch takes with and without
machine code that was kept. One PE and one thread of the process, a JSON line for each device.

Then what a launch costs that did the same before (``--launches``: that alone), on each device.

Then the first launches of kernels that call routines, and the whole process: with nothing kept, with the
routines alone, as other kernels leave them, and with all.

Then two PEs: a put and a get by one thread of a kernel beside the host's routine, nanoseconds each, and
the first launch of that kernel, without machine code that was kept and with it.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyshmem  # arranges how numba.cuda runs kernels

SIDES = {"cpu": (2048, 64), "sim": (64, 2)}  # cells a side; blocks of the reduction
THREADS, STEPS = 256, 9  # barriers of a thread


def best(seconds: float, launch: Callable[..., object], *given: object) -> tuple[float, float]:
    """The seconds of the first launch, and of the shortest in ``seconds``."""
    begin = time.perf_counter()
    launch(*given)
    first = shortest = time.perf_counter() - begin
    while time.perf_counter() - begin < seconds:
        at = time.perf_counter()
        launch(*given)
        shortest = min(shortest, time.perf_counter() - at)
    return first, shortest


def measure(device: str, seconds: float) -> dict[str, object]:
    import numba
    import numpy as np
    from numba import cuda

    importlib.import_module("pyshmem.device")

    @cuda.jit
    def stencil(a, b):
        i, j = cuda.grid(2)
        if 0 < i < a.shape[0] - 1 and 0 < j < a.shape[1] - 1:
            around = a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1]
            b[i, j] = a[i, j] + 0.1 * (around - 4.0 * a[i, j])

    @cuda.jit
    def tree(a, out):
        shared = cuda.shared.array(THREADS, numba.float64)
        thread = cuda.threadIdx.x
        shared[thread] = a[cuda.grid(1)]
        cuda.syncthreads()
        half = THREADS // 2
        while half > 0:
            if thread < half:
                shared[thread] += shared[thread + half]
            cuda.syncthreads()
            half //= 2
        if thread == 0:
            out[cuda.blockIdx.x] = shared[0]

    side, blocks = SIDES[device]
    start = np.random.default_rng(1).random((side, side))
    a, b = cuda.to_device(start), cuda.to_device(start)
    values = np.random.default_rng(2).random(blocks * THREADS)
    x, out = cuda.to_device(values), cuda.to_device(np.zeros(blocks))

    first, stencil_s = best(seconds, stencil[(side // 16, side // 16), (16, 16)], a, b)
    _, tree_s = best(seconds, tree[blocks, THREADS], x, out)
    want = start.copy()
    around = start[:-2, 1:-1] + start[2:, 1:-1] + start[1:-1, :-2] + start[1:-1, 2:]
    want[1:-1, 1:-1] += 0.1 * (around - 4.0 * start[1:-1, 1:-1])
    assert np.allclose(b.copy_to_host(), want)
    assert np.allclose(out.copy_to_host(), values.reshape(blocks, THREADS).sum(1))
    return {
        "device": device,
        "first_launch_s": round(first, 3),
        "cells_per_s": round(side * side / stencil_s),
        "thread_barriers_per_s": round(blocks * THREADS * STEPS / tree_s),
        "versions": {
            "pyshmem": pyshmem.__version__,
            "numba": numba.__version__,
            "python": sys.version.split()[0],
        },
    }


def first_launches() -> dict[str, float]:
    """Seconds of each kernel's first launch, in this order."""
    from numba import cuda

    shmem = importlib.import_module("pyshmem.device")

    @cuda.jit
    def plain(x):
        x[cuda.grid(1)] += 1

    @cuda.jit
    def put(x):
        shmem.put_work_group(x, x, 0)

    @cuda.jit
    def sum_reduce(x):
        shmem.sum_reduce_work_group(shmem.TEAM_WORLD, x, x, 32)

    with pyshmem.init():
        x = pyshmem.zeros(32, dtype="f4", heap="device")
        kernels = {"plain": plain, "put": put, "sum_reduce": sum_reduce}
        return {
            name: round(shortest(1, functools.partial(kernel[1, 32], x)), 3)
            for name, kernel in kernels.items()
        }


def launches() -> dict[str, float]:
    """Microseconds of processor time of a launch that did the same before: the best of 20 hundreds."""
    from numba import cuda

    shmem = importlib.import_module("pyshmem.device")

    @cuda.jit
    def plain(x, n):
        if cuda.grid(1) < n:
            x[cuda.grid(1)] = n

    @cuda.jit
    def put(dest, source, n):
        shmem.put_work_group(dest, source, 0, n)

    with pyshmem.init():
        dest, source = (pyshmem.zeros(8, dtype="i8", heap="device") for _ in range(2))
        ordinary = cuda.to_device(source.copy())
        calls = {
            "plain_1_thread": functools.partial(plain[1, 1], ordinary, 8),
            "plain_32_threads": functools.partial(plain[1, 32], ordinary, 8),
            "put_1_thread": functools.partial(put[1, 1], dest, source, 8),
            "configured_anew": lambda: put[1, 1](dest, source, 8),
        }
        return {name: least_us(call) for name, call in calls.items()}


def least_us(call: Callable[[], object], count: int = 100) -> float:
    call()
    times = []
    for _ in range(20):
        begin = time.process_time()
        repeated(call, count)
        times.append((time.process_time() - begin) / count)
    return round(min(times) * 1e6, 1)


def compiles() -> None:
    """A process each, with less and less to compile."""
    with tempfile.TemporaryDirectory() as kept:
        environment = dict(os.environ, PYSHMEM_DEVICE="cpu", PYSHMEM_CACHE_DIR=kept)
        for what in ("nothing", "routines", "kernels"):
            if what == "routines":
                for path in Path(kept).glob("cpu-*.o"):
                    path.unlink()
            begin = time.perf_counter()
            command = [sys.executable, __file__, "--first-launches"]
            done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE)
            row = {"kept": what, "process_s": round(time.perf_counter() - begin, 2)}
            print(json.dumps(row | {"first_launch_s": json.loads(done.stdout)}), flush=True)


SIZES = (8, 1024, 65536)


def shortest(repeat: int, run: Callable[[], object]) -> float:
    """Seconds."""
    times = []
    for _ in range(repeat):
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return min(times)


def repeated(call: Callable[[], object], count: int) -> None:
    for _ in range(count):
        call()


def transfers() -> None:
    """On 2 PEs; the other one waits in a barrier."""
    import numpy as np
    from numba import cuda

    shmem = importlib.import_module("pyshmem.device")

    @cuda.jit
    def puts(dest, source, pe, count):
        for _ in range(count):
            shmem.put(dest, source, pe)
        shmem.quiet()

    @cuda.jit
    def gets(dest, source, pe, count):
        for _ in range(count):
            shmem.get(dest, source, pe)

    def row_of(nbytes: int) -> dict[str, object]:
        dest, source = (pyshmem.zeros(nbytes, dtype=np.uint8, heap="device") for _ in range(2))
        count = 20000 if nbytes < 65536 else 1000
        row: dict[str, object] = {"nbytes": nbytes}
        if pyshmem.my_pe() == 0:
            for name, kernel, host in (("put", puts, pyshmem.put), ("get", gets, pyshmem.get)):
                launch = functools.partial(kernel[1, 1], dest, source, 1)
                call = functools.partial(host, dest, source, 1)
                row[f"{name}_first_launch_s"] = shortest(1, functools.partial(launch, 1))
                in_kernel = shortest(7, functools.partial(launch, count))
                by_host = shortest(7, functools.partial(repeated, call, count))
                row[f"{name}_in_kernel_ns"] = round(in_kernel / count * 1e9, 1)
                row[f"{name}_by_host_ns"] = round(by_host / count * 1e9, 1)
        pyshmem.barrier_all()
        return row

    with pyshmem.init() as job:
        rows = list(map(row_of, SIZES))
        if job.my_pe == 0:
            print(*map(json.dumps, rows), sep="\n", flush=True)


def on_each(kept: str, devices: tuple[str, ...], *options: str) -> None:
    """This program again for each device, with machine code of ``kept``."""
    for device in devices:
        environment = dict(os.environ, PYSHMEM_DEVICE=device, PYSHMEM_CACHE_DIR=kept)
        environment["PYSHMEM_CPU_THREADS"] = "1"
        command = [sys.executable, __file__, "--device", device, *options]
        subprocess.run(command, env=environment, check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.0, help="for each kernel")
    parser.add_argument("--device", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--transfers", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--compiles", action="store_true", help="first launches alone")
    parser.add_argument("--first-launches", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--launches", action="store_true", help="later launches alone")
    options = parser.parse_args()
    if options.first_launches:
        print(json.dumps(first_launches()))
        return
    if options.compiles:
        compiles()
        return
    if options.transfers:
        transfers()
        return
    if options.device and options.launches:
        print(json.dumps({"device": options.device, "launch_us": launches()}))
        return
    if options.device:
        print(json.dumps(measure(options.device, options.seconds)))
        return
    with tempfile.TemporaryDirectory() as kept:
        if options.launches:
            on_each(kept, ("cpu", "sim", "cpu", "sim"), "--launches")
            return
        # The second time the machine code is there.
        on_each(kept, ("cpu", "cpu", "sim"), "--seconds", str(options.seconds))
        on_each(kept, ("cpu", "sim"), "--launches")
        compiles()
        job = [sys.executable, "-m", "pyshmem", "run", "-n", "2", "--device", "cpu", __file__]
        for _ in range(2):
            environment = dict(os.environ, PYSHMEM_CACHE_DIR=kept, PYSHMEM_CPU_THREADS="1")
            subprocess.run([*job, "--transfers"], env=environment, check=True)


if __name__ == "__main__":
    main()
