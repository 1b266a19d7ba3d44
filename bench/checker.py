# SPDX-License-Identifier: BSD-3-Clause
"""What ``--check=order`` costs: five programs, with it and without, in turn.

Run: python bench/checker.py [--turns N] [NAME ...]. A line of JSON for each program has, without the
checker and with it, the ms from the end of init to that of the job, less those of a program that does
nothing there; their ratio; and the launcher's memory beyond that of the same job without it, in MiB. The
looking at records is in it. The fastest of N jobs counts. Allowed: 10 times for programs of calls, 30
times for loops over elements, 64 MiB and 6 times what is touched.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import click

_HEAD = """
import time
import numpy as np
import pyshmem
"""
_NUMBA = """
from numba import cuda
import pyshmem.device as shmem
"""
#: By name: what it is of, and the program.
PROGRAMS = {
    "nothing": ("start", _HEAD + _NUMBA + "with pyshmem.init(device='sim'):\n    print(time.time())\n"),
    "ping_pong": ("calls", _HEAD + _NUMBA + """
with pyshmem.init(device="sim") as job:
    print(time.time())
    data, flag = pyshmem.zeros(64), pyshmem.new_signal()
    source, peer = np.ones(64), 1 - job.my_pe
    for turn in range(1, 6001):
        if turn % 2 == job.my_pe:
            pyshmem.put_signal(data, source, flag, turn, pyshmem.SIGNAL_SET, peer)
        else:
            pyshmem.signal_wait_until(flag, pyshmem.CMP_GE, turn)
"""),
    "collectives": ("calls", _HEAD + _NUMBA + """
with pyshmem.init(device="sim") as job:
    print(time.time())
    source, dest = pyshmem.ones(1024), pyshmem.zeros(1024)
    for turn in range(1500):
        pyshmem.sum_reduce(dest, source)
        pyshmem.put(source[:8], dest[:8] * 0 + 1, 1 - job.my_pe)
        pyshmem.barrier_all()
"""),
    "kernel_calls": ("calls", _HEAD + _NUMBA + """
@cuda.jit
def work(data, flags, turn):
    i, peer = cuda.grid(1), 1 - shmem.my_pe()
    shmem.p(data[i:], turn + i, peer)
    shmem.fence()
    shmem.signal_op(flags[i:], turn, shmem.SIGNAL_SET, peer)
    shmem.signal_wait_until(flags[i:], shmem.CMP_GE, turn)


with pyshmem.init(device="sim") as job:
    print(time.time())
    data = pyshmem.zeros(32, np.int64, heap="device")
    flags = pyshmem.zeros(32, np.uint64, heap="device")
    for turn in range(1, 201):
        work[2, 16](data, flags, turn)
        pyshmem.barrier_all()
"""),
    "kernel_elements": ("elements", _HEAD + _NUMBA + """
@cuda.jit
def work(out, data):
    i, total = cuda.grid(1), 0.0
    for k in range(512):
        total += data[i * 512 + k]
        out[i * 512 + k] = total


with pyshmem.init(device="sim") as job:
    print(time.time())
    out, data = (pyshmem.ones(32 * 512, heap="device") for _ in range(2))
    for turn in range(4):
        work[2, 16](out, data)
        pyshmem.barrier_all()
"""),
    "triton_tiles": ("elements", _HEAD + """
import triton
import triton.language as tl
import pyshmem.triton as shmem


@triton.jit
def work(out, data, box, flags, ctx, turn, B: tl.constexpr):
    p, peer = tl.program_id(0), 1 - shmem.my_pe(ctx)
    offs = p * B + tl.arange(0, B)
    for k in range(8):
        tl.store(out + offs, tl.load(data + offs) + k)
    shmem.store(box + offs, tl.load(out + offs), peer, ctx)
    shmem.signal_op(flags + p, turn, shmem.SIGNAL_SET, peer, ctx)
    shmem.signal_wait_until(flags + p, shmem.CMP_GE, turn, ctx)


with pyshmem.init(device="sim") as job:
    print(time.time())
    out, data, box = (pyshmem.ones(4 * 256, np.float32, heap="device") for _ in range(3))
    flags = pyshmem.zeros(4, np.uint64, heap="device")
    for turn in range(1, 11):
        work[(4,)](out, data, box, flags, shmem.context(), turn, B=256)
        pyshmem.barrier_all()
"""),
}  # fmt: skip


def run(program: Path, check: bool) -> tuple[float, float]:
    """Seconds from the end of init to that of the job, and MiB of its launcher. Raises: SystemExit."""
    command = [sys.executable, "-m", "pyshmem", "run", "-n", "2", "--device", "sim", str(program)]
    variables = {**os.environ, "PYSHMEM_CHECK": "order" if check else "0"}
    with subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None
        begun = [float(line) for line in started.stdout]
        _, status, used = os.wait4(started.pid, 0)
        started.returncode = os.waitstatus_to_exitcode(status)
    if started.returncode:
        raise SystemExit(f"{program.name}: exit status {started.returncode}")
    return time.time() - max(begun), used.ru_maxrss / 1024


@click.command()
@click.option("--turns", default=5, show_default=True, help="Jobs of each; the fastest is told.")
@click.argument("names", nargs=-1)
def main(turns: int, names: tuple[str, ...]) -> None:
    """Measure programs of these NAMES; without, all."""
    wanted = names or tuple(name for name in PROGRAMS if name != "nothing")
    with tempfile.TemporaryDirectory() as folder:
        ends: dict[bool, float] = {}
        for name in ("nothing", *wanted):
            program = Path(folder, f"{name}.py")
            program.write_text(PROGRAMS[name][1], encoding="utf-8")
            found: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
            for _ in range(turns):
                for check in (False, True):
                    found[check].append(run(program, check))
            spent = {check: min(seconds for seconds, _ in one) for check, one in found.items()}
            memory = {check: max(mib for _, mib in one) for check, one in found.items()}
            if name == "nothing":
                ends = spent
                continue
            plain, checked = (spent[check] - ends[check] for check in (False, True))
            row = {
                "op": name, "pes": 2, "of": PROGRAMS[name][0], "plain_ms": round(1e3 * plain),
                "checked_ms": round(1e3 * checked), "times": round(checked / plain, 1),
                "launcher_mib": round(memory[True] - memory[False]),
            }  # fmt: skip
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
