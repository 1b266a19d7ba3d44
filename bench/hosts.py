# SPDX-License-Identifier: BSD-3-Clause
"""What kernels pay for PEs out of reach of loads and stores, beside what the way there costs by itself.

Run: PYSHMEM_NODE_SIZE=1 python -m pyshmem run -n 2 bench/hosts.py
     python -m pyshmem run -n 4 bench/hosts.py near > alone.jsonl
     PYSHMEM_NODE_SIZE=2 python -m pyshmem run -n 4 bench/hosts.py near alone.jsonl
PE 0 prints one JSON line a figure, in microseconds, and behind them one a target: a ratio, its limit and
whether it holds. With ``near`` PE 0 puts to PE 1 by stores; a file of such figures is what they are
compared with. In the simulator the figures are small and say nothing, but all of it runs.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import pyshmem  # before numba
from pyshmem import device as shmem
from pyshmem.bench import kernels
from pyshmem.bench.timing import Clock, Row

ONE, BLOCK = (1, 1), (1024, 1)
NEAR_PUTS = 0.05  # by how much of itself a near put may differ from run to run
OFTEN = 200


def verdict(target: str, value: float, limit: float, at_least: bool = False) -> None:
    """One JSON line: ``value`` is to be at most, or at least, ``limit``."""
    good = value >= limit if at_least else value <= limit
    row = {"target": target, "value": round(value, 3), "limit": limit, "passed": good}
    print(json.dumps(row), flush=True)


def least_us(call: Callable[[], Any], calls: int = 1) -> float:
    """Microseconds of a host call, the least of five."""
    times = []
    for _ in range(5):
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        times.append((time.perf_counter() - begin) / calls)
    return min(times) * 1e6


def copy_to_pinned(clock: Clock, host: Any, gpu: Any) -> float:
    """Microseconds of a copy from the GPU to the pinned host heap."""
    if clock.simulated:
        return least_us(lambda: np.copyto(np.asarray(host), np.asarray(gpu)))
    import cupy

    to, begin, count = np.asarray(host).ctypes.data, gpu.data.ptr, host.nbytes
    return least_us(lambda: cupy.cuda.runtime.memcpy(to, begin, count, 2))


def put(clock: Clock, far: int) -> None:
    """A large put beside the copy to pinned memory and the conduit's put."""
    nbytes = 1 << 16 if clock.simulated else 64 << 20
    there, here = (pyshmem.zeros(nbytes, np.uint8, heap="device") for _ in range(2))
    to, begin = (pyshmem.zeros(nbytes, np.uint8) for _ in range(2))
    shape = (32, 1) if clock.simulated else BLOCK
    pyshmem.barrier_all()
    if clock.job.my_pe == 0:
        us = {"conduit": least_us(lambda: (pyshmem.put(to, begin, far), pyshmem.quiet()))}
        us["pinned"] = copy_to_pinned(clock, begin, here)
        d, s = shmem.as_argument(there), shmem.as_argument(here)
        us["staged"] = clock.alone(kernels.mover(shmem.put_work_group), shape, d, s, far)
        for way, time_of in us.items():
            clock.emit("put_far", nbytes, shape, time_of, way)
        slower = max(us["pinned"], us["conduit"])
        verdict("staged put / min(pinned copy, conduit)", slower / us["staged"], 0.8, at_least=True)
    pyshmem.barrier_all()


def round_trips(clock: Clock, far: int) -> None:
    """fetch_add and a signal there and back, beside the ring's null request and the host's own."""
    job = clock.job
    counter, words = pyshmem.zeros(1, np.int64, heap="device"), pyshmem.zeros(1, np.int64)
    gpu_sig, sig = pyshmem.new_signal(heap="device"), pyshmem.new_signal()
    calls = 2 if clock.simulated else OFTEN
    pyshmem.barrier_all()
    us = {}
    if job.my_pe == 0:
        us["ring"] = clock.alone(kernels.ring_ask, ONE)
        us["add"] = clock.alone(kernels.fetch_add, ONE, shmem.as_argument(counter), far)
        us["host add"] = least_us(lambda: pyshmem.atomic_fetch_add(words, 1, far), calls)
    pyshmem.barrier_all()
    if job.n_pes == 2:
        us["signal"] = signal_us(clock, gpu_sig, calls)
        us["host signal"] = host_signal_us(job, sig, calls)
    if job.my_pe != 0:
        return
    for name, value in us.items():
        clock.emit(name.replace(" ", "_"), 8, ONE, value)
    verdict("fetch_add / (ring + conduit)", us["add"] / (us["ring"] + us["host add"]), 2.5)
    if job.n_pes == 2:
        both = us["ring"] + us["host signal"]
        verdict("signal there and back / (ring + conduit)", us["signal"] / both, 2.5)


def signal_us(clock: Clock, sig: Any, calls: int) -> float:
    """Microseconds of a signal between two kernels, there and back."""
    times = []
    for _ in range(4):  # every run needs the signal at 0
        pyshmem.barrier_all()
        pyshmem.put(sig, np.zeros(1, np.uint64), clock.job.my_pe)
        pyshmem.barrier_all()
        times.append(clock.once(kernels.signal_pingpong, ONE, calls, sig))
    return min(times[1:])


def host_signal_us(job: Any, sig: Any, calls: int) -> float:
    """The same between two hosts' processes."""
    times, count = [], 0
    for _ in range(5):
        pyshmem.barrier_all()
        begin = time.perf_counter()
        for _ in range(calls):
            count += 1
            if job.my_pe == 0:
                pyshmem.signal_set(sig, count, 1)
            pyshmem.signal_wait_until(sig, pyshmem.CMP_GE, count)
            if job.my_pe == 1:
                pyshmem.signal_set(sig, count, 0)
        times.append((time.perf_counter() - begin) / calls)
    return min(times) * 1e6


def near(clock: Clock, alone: list[dict[str, Any]]) -> None:
    """Puts of PE 0 to PE 1, which is near, beside those of a job without far PEs."""
    sizes = (8, 1024) if clock.simulated else (8, 4096, 1 << 16, 1 << 20)
    shape = (32, 1) if clock.simulated else BLOCK
    there, here = (pyshmem.zeros(sizes[-1], np.uint8, heap="device") for _ in range(2))
    pyshmem.barrier_all()
    if clock.job.my_pe == 0:
        kernel = kernels.mover(shmem.put_work_group)
        before = {row["bytes"]: row["us"] for row in alone if row.get("op") == "put_near"}
        for nbytes in sizes:
            d, s = (shmem.as_argument(array)[:nbytes] for array in (there, here))
            us = clock.alone(kernel, shape, d, s, 1)
            clock.emit("put_near", nbytes, shape, us)
            if nbytes in before:
                ratio = us / before[nbytes]
                verdict(f"near put of {nbytes} B with / without a far PE", ratio, 1 + NEAR_PUTS)
    pyshmem.barrier_all()


def main(arguments: list[str]) -> None:
    """All of a job with far PEs, or ``near`` alone."""
    with pyshmem.init(heap_size="256M", device_heap_size="256M") as job:
        clock = Clock(job, Row.print)
        if arguments[:1] == ["near"]:
            texts = Path(arguments[1]).read_text().splitlines() if arguments[1:] else []
            near(clock, [json.loads(text) for text in texts if text.startswith("{")])
            return
        far = job.n_pes - 1
        if pyshmem.TEAM_SHARED.n_pes() == job.n_pes:
            raise SystemExit("no PE is far: set PYSHMEM_NODE_SIZE=1, or use two hosts")
        put(clock, far)
        round_trips(clock, far)


if __name__ == "__main__":
    main(sys.argv[1:])
