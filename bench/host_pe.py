# SPDX-License-Identifier: BSD-3-Clause
"""What every PE of one of ``host.py``'s jobs runs: the statements of a provider, timed in a loop.

Run by ``host.py``. Prints one JSON line a figure: nanoseconds of one call, of which PE 0 makes
enough to take 20 ms. RMA is issued by PE 0 alone and completed once, at the end of the loop;
collectives are called back to back by all PEs.
"""

import itertools
import json
import sys
import time
import timeit
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

TARGET_NS = 20e6
SIZES = [8, 64, 512, 4096, 32768, 262144, 1048576, 4194304]
SIZED = {"put", "get", "broadcast", "fcollect", "sum_reduce", "memcpy"}
ONE_SIDED = {"put", "get", "p", "g", "fetch_add", "put nelems", "put ndarray", "memcpy", "call"}


class Provider(NamedTuple):
    """A library: its statements, by operation, and what they need."""

    statements: dict[str, str]
    names: dict[str, Any]  # what the statements call
    arrays: Callable[[int], dict[str, Any]]  # dest, source, all_dest of so many bytes
    barrier: Callable[[], None]
    complete: Callable[[], None]
    agree: Callable[[int], int]  # the number that PE 0 gives
    free: Callable[[], None]  # what was made
    pe: int
    n_pes: int
    version: str


SHMEM = {
    "put": "put(dest, source, 1)",
    "get": "get(dest, source, 1)",
    "p": "p(word, 7, 1)",
    "g": "g(word, 1)",
    "fetch_add": "atomic_fetch_add(word, 1, 1)",
    "barrier_all": "barrier_all()",
    "broadcast": "broadcast(dest, source, 0)",
    "fcollect": "fcollect(all_dest, source)",
    "sum_reduce": "sum_reduce(dest, source)",
    "ping-pong": "value += 1; p(flag, value, 1); wait_until(flag, CMP_EQ, value)",
    "pong": "value += 1; wait_until(flag, CMP_EQ, value); p(flag, value, 0)",
    "call": "my_pe()",
}


def shmem(module: Any, statements: dict[str, str], version: str) -> Provider:
    """Of pyshmem and shmem4py, whose routines have the specification's names."""
    pe, n_pes = module.my_pe(), module.n_pes()
    word, flag, shared, mine = kept = [module.zeros(1, dtype=np.int64) for _ in range(4)]
    made: list[Any] = []
    names = {**vars(module), "word": word, "flag": flag, "pe": pe}

    def arrays(nbytes: int) -> dict[str, Any]:
        free(made)
        counts = [nbytes // 8, nbytes // 8, n_pes * nbytes // 8]
        made.extend(module.zeros(count, dtype=np.float64) for count in counts)
        return dict(zip(("dest", "source", "all_dest"), made, strict=True))

    def free(arrays: list[Any]) -> None:
        while arrays:
            module.free(arrays.pop())

    def agree(value: int) -> int:
        mine[0] = value
        module.broadcast(shared, mine, 0)
        module.barrier_all()
        return int(shared[0])

    return Provider(
        statements, names, arrays, module.barrier_all, module.quiet, agree,
        lambda: free(made + kept), pe, n_pes, version,
    )  # fmt: skip


def pyshmem() -> Provider:
    import pyshmem as module

    module.init()
    own = {
        "put nelems": "put(dest, source, 1, nelems=1)",
        "put ndarray": "put(dest, plain, 1)",
        "memcpy": "memmove(there, here, nbytes)",
    }
    provider = shmem(module, SHMEM | own, module.__version__)

    def arrays(nbytes: int) -> dict[str, Any]:
        import ctypes

        made = provider.arrays(nbytes)
        there = module.ptr(made["dest"], 1)
        addresses = {"memmove": ctypes.memmove, "here": made["source"].ctypes.data}
        if there is None:
            return made
        return made | addresses | {"there": there.ctypes.data, "plain": np.zeros(nbytes // 8)}

    return provider._replace(arrays=arrays)


def shmem4py() -> Provider:
    import shmem4py
    from shmem4py import shmem as module

    own = {
        "put nelems": "put(dest, source, 1, 1)",
        "put ndarray": "put(dest, plain, 1)",
        "ping-pong": "value += 1; one[0] = value; put(flag, one, 1); wait_until(flag, CMP_EQ, value)",
        "pong": "value += 1; wait_until(flag, CMP_EQ, value); one[0] = value; put(flag, one, 0)",
    }
    statements = {op: text for op, text in SHMEM.items() if op not in ("p", "g")}  # it has neither
    provider = shmem(module, statements | own, shmem4py.__version__)
    provider.names["one"] = np.zeros(1, dtype=np.int64)
    make = provider.arrays
    return provider._replace(arrays=lambda nbytes: make(nbytes) | {"plain": np.zeros(nbytes // 8)})


def mpi4py() -> Provider:
    import mpi4py as package
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    statements = {
        "put": "window.Put(source, 1)",
        "get": "window.Get(dest, 1)",
        "p": "window.Put(one, 1)",
        "g": "window.Get(one, 1); window.Flush(1)",
        "fetch_add": "window.Fetch_and_op(one, old, 1); window.Flush(1)",
        "barrier_all": "world.Barrier()",
        "broadcast": "world.Bcast(dest)",
        "fcollect": "world.Allgather(source, all_dest)",
        "sum_reduce": "world.Allreduce(source, dest)",
        "ping-pong": "world.Send(one, 1); world.Recv(old, 1)",
        "pong": "world.Recv(old, 0); world.Send(one, 0)",
        "call": "world.Get_rank()",
    }
    window = MPI.Win.Allocate(max(SIZES), 1, comm=world)
    window.Lock_all()
    one, old = np.ones(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
    names = {"window": window, "world": world, "one": one, "old": old}

    def arrays(nbytes: int) -> dict[str, Any]:
        dest, source = np.zeros(nbytes // 8), np.zeros(nbytes // 8)
        return {"dest": dest, "source": source, "all_dest": np.zeros(world.size * nbytes // 8)}

    return Provider(
        statements, names, arrays, world.Barrier, window.Flush_all, world.bcast,
        lambda: None, world.rank, world.size, package.__version__,
    )  # fmt: skip


def run(provider: Provider, op: str, timer: timeit.Timer | None, iterations: int) -> float:
    """Nanoseconds of so many calls on all PEs, the completion included."""
    provider.barrier()
    begin = time.perf_counter_ns()
    if timer is not None:
        timer.timeit(iterations)
        if op in ONE_SIDED and op != "call":
            provider.complete()
    if op not in ONE_SIDED:
        provider.barrier()
    return time.perf_counter_ns() - begin


def measure(provider: Provider, op: str, nbytes: int) -> tuple[float, int]:
    """Nanoseconds of one call, and how many there were."""
    key = "pong" if op == "ping-pong" and provider.pe == 1 else op
    names = provider.names | provider.arrays(nbytes) | {"nbytes": nbytes, "start": 0}
    active = provider.pe == 0 or op not in ONE_SIDED
    if op == "ping-pong" and provider.pe > 1:
        active = False
    timer = timeit.Timer(provider.statements[key], "value = start", globals=names)
    iterations = 1
    for attempt in itertools.count():
        elapsed = run(provider, op, timer if active else None, iterations)
        names["start"] += iterations  # flags of the ping-pong only grow
        enough = attempt and elapsed >= TARGET_NS
        following = int(iterations * min(100, max(1.5, 1.2 * TARGET_NS / elapsed))) + 1
        following = provider.agree(0 if enough else following)
        if not following:
            return elapsed / iterations, iterations
        iterations = following
    raise AssertionError


def main(name: str, label: str, *ops: str) -> None:
    provider = {"pyshmem": pyshmem, "shmem4py": shmem4py, "mpi4py": mpi4py}[name]()
    for op in ops or [op for op in provider.statements if op != "pong"]:
        for nbytes in SIZES if op in SIZED else [8]:
            figure, iterations = measure(provider, op, nbytes)
            row = {"provider": label, "op": op, "bytes": nbytes, "pes": provider.n_pes}
            row |= {"ns": round(figure, 1), "calls": iterations, "version": provider.version}
            if provider.pe == 0:
                print(json.dumps(row), flush=True)
            provider.barrier()
    provider.free()


if __name__ == "__main__":
    main(*sys.argv[1:])
