# SPDX-License-Identifier: BSD-3-Clause
"""Figures of ``pyshmem.triton`` on 2 PEs, a JSON line each, beside bare CUDA in the same process.

    python -m pyshmem run -n 2 --device cuda bench/triton_tiles.py [FOLDER]

Each size has a few shapes of tiles, the best counts: most of the time Triton compiles. All-reduces stand
beside ``bare_allreduce.cu`` in ``of_bare``, its best algorithm and grid of each size: nvcc compiles it,
or it is in FOLDER. ``us_early`` is of launches with ``launch_pdl=True``, for which the kernel says when
it needs what the one in front of it did. On GPUs it needs torch and CuPy. In the interpreter
(``--device sim``) it runs everything at small sizes and checks the results; its times mean nothing.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from pyshmem.bench.cupy_streams import external
from streams import build
from triton.language.extra import cuda

import pyshmem
import pyshmem.triton as shmem
import triton
import triton.language as tl

BARE = r"""
extern "C" __global__ void copy(float4 *dest, const float4 *source, long n) {
    long i = blockIdx.x * (long)blockDim.x + threadIdx.x, step = gridDim.x * (long)blockDim.x;
    for (; i + 3 * step < n; i += 4 * step) {
        float4 a = source[i], b = source[i + step], c = source[i + 2 * step], d = source[i + 3 * step];
        dest[i] = a; dest[i + step] = b; dest[i + 2 * step] = c; dest[i + 3 * step] = d;
    }
    for (; i < n; i += step) dest[i] = source[i];
}
"""


@triton.jit
def store_tiles(far, near, n, pe, ctx, B: tl.constexpr):
    first = tl.program_id(0) * B
    while first < n:
        offs = first + tl.arange(0, B)
        shmem.store(far + offs, tl.load(near + offs, mask=offs < n), pe, ctx, mask=offs < n)
        first += tl.num_programs(0) * B


@triton.jit
def load_tiles(near, far, n, pe, ctx, B: tl.constexpr):
    first = tl.program_id(0) * B
    while first < n:
        offs = first + tl.arange(0, B)
        tl.store(near + offs, shmem.load(far + offs, pe, ctx, mask=offs < n), mask=offs < n)
        first += tl.num_programs(0) * B


@triton.jit
def ping_pong(sig, first, rounds, ctx, SEM: tl.constexpr):
    me = shmem.my_pe(ctx)
    for turn in range(first, first + rounds):
        if me == 1:
            shmem.signal_wait_until(sig, shmem.CMP_GE, turn, ctx)
        shmem.signal_op(sig, turn, shmem.SIGNAL_SET, 1 - me, ctx, SEM)
        if me == 0:
            shmem.signal_wait_until(sig, shmem.CMP_GE, turn, ctx)


@triton.jit
def barriers(rounds, ctx):
    for _ in range(rounds):
        shmem.barrier_grid(ctx)


@triton.jit
def reduce_tiles(
    out, source, words, n, ctx, TWO: tl.constexpr, B: tl.constexpr, EARLY: tl.constexpr
):
    if EARLY:
        cuda.gdc_wait()
        cuda.gdc_launch_dependents()
    offs = tl.program_id(0) * B + tl.arange(0, B)
    total = shmem.all_reduce(tl.load(source + offs, mask=offs < n), words, ctx, two_shots=TWO)
    tl.store(out + offs, total, mask=offs < n)


@triton.jit
def reduce_large(out, source, n, words, ctx, B: tl.constexpr):
    shmem.all_reduce_grid(out, source, n, ctx, B, words=words)


class Clock:
    """Microseconds a call: by events and, if asked, of calls in a CUDA graph."""

    def __init__(self, on_gpu: bool) -> None:
        self.on_gpu = on_gpu

    def __call__(self, call: Callable[[], object], repeat: int, graph: bool = False) -> float:
        if not self.on_gpu:
            begin = time.perf_counter()
            call()
            return 1e6 * (time.perf_counter() - begin)
        import torch

        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            call()
        stream.synchronize()
        pyshmem.barrier_all()
        run = (
            self._graph(call, repeat, stream) if graph else lambda: [call() for _ in range(repeat)]
        )
        found = []
        for _ in range(7):
            pyshmem.barrier_all()
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            with torch.cuda.stream(stream):
                run()  # the PEs come together
                begin.record()
                run()
                end.record()
            end.synchronize()
            found.append(1e3 * begin.elapsed_time(end) / repeat)
        return sorted(found)[3]

    @staticmethod
    def _graph(call: Callable[[], object], repeat: int, stream: object) -> Callable[[], object]:
        import torch

        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for _ in range(repeat):
                call()
        pyshmem.barrier_all()
        return graph.replay


def tell(**row: object) -> None:
    if pyshmem.my_pe() == 0:
        rounded = {k: round(v, 3) if isinstance(v, float) else v for k, v in row.items()}
        print(json.dumps(rounded), flush=True)


def bandwidth(clock: Clock, ctx: object, sizes: list[int]) -> None:
    peer = (pyshmem.my_pe() + 1) % pyshmem.n_pes()
    far = pyshmem.full(max(sizes) // 4, pyshmem.my_pe(), dtype=np.float32, heap="device")
    near = pyshmem.full(max(sizes) // 4, 7, dtype=np.float32, heap="device")
    grid, shapes = (
        ((132,), ((2048, 8), (4096, 4), (8192, 8))) if clock.on_gpu else ((2,), ((1024, 4),))
    )
    for nbytes in sizes:
        for name, kernel in (("load", load_tiles), ("store", store_tiles)):
            first, second = map(shmem.wrap, (near, far) if name == "load" else (far, near))
            arguments, best = (first, second, nbytes // 4, peer, ctx), (1e30, 0, 0)
            for block, warps in shapes:
                call = partial(kernel[grid], *arguments, B=block, num_warps=warps)
                us = clock(call, 5, graph=True)
                best = min(best, (us, block, warps))
            bare = bare_us(clock, name, near, far, nbytes, peer) if clock.on_gpu else best[0]
            tell(
                op=f"triton_{name}", bytes=nbytes, us=best[0], gbs=nbytes / best[0] / 1e3,
                block=best[1], warps=best[2], bare_us=bare, of_bare=bare / best[0],
            )  # fmt: skip


def bare_us(clock: Clock, name: str, near: object, far: object, nbytes: int, peer: int) -> float:
    import cupy
    import torch

    kernel, remote = cupy.RawKernel(BARE, "copy"), pyshmem.ptr(far, peer)
    to, source = (near, remote) if name == "load" else (remote, near)

    def call() -> None:
        with external(cupy, torch.cuda.current_stream().cuda_stream):
            kernel((132,), (1024,), (to, source, np.int64(nbytes // 16)))

    return clock(call, 5, graph=True)


def signals_and_barriers(clock: Clock, ctx: object) -> None:
    rounds, programs = (2000, 132) if clock.on_gpu else (3, 2)
    sig, turn = shmem.wrap(pyshmem.zeros(1, dtype=np.int64, heap="device")), [1]

    def play(sem: str) -> None:
        ping_pong[(1,)](sig, turn[0], rounds, ctx, SEM=sem, num_warps=1)
        turn[0] += rounds

    for sem in ("relaxed", "release") if pyshmem.n_pes() == 2 else ():
        tell(op="triton_signal_ping_pong", sem=sem, us=clock(partial(play, sem), 1) / rounds)
    us = clock(lambda: barriers[(programs,)](rounds, ctx, num_warps=4), 1) / rounds
    tell(op="triton_grid_barrier", programs=programs, us=us)


def bare_reductions() -> dict[int, float]:
    """Microseconds of bare CUDA's best all-reduce of each size, which PE 0 has run; none without it."""
    found: dict[int, float] = {}
    if pyshmem.my_pe() == 0:
        with tempfile.TemporaryDirectory() as folder:
            program = build("bare_allreduce.cu", Path((*sys.argv[1:], folder)[0]), "-lpthread")
            command = [str(program), str(pyshmem.n_pes())]
            text = subprocess.run(command, capture_output=True, text=True).stdout if program else ""
        for row in map(json.loads, text.splitlines()):
            found[row["bytes"]] = min(row["us_graph"], found.get(row["bytes"], 1e30))
    pyshmem.barrier_all()
    return found


#: By bytes, up to which size: blocks and warps of one tile a program.
SHAPES = (
    (8, ((32, 1), (128, 4))),
    (1 << 10, ((128, 4), (256, 2))),
    (1 << 18, ((256, 2), (128, 1), (512, 4))),
    (1 << 20, ((1024, 4), (1024, 8))),
)
#: Of programs that take tile after tile.
LARGE_SHAPES = ((4096, 16), (8192, 32))


def of_all(us: float) -> float:
    """The slowest PE's: all choose the same shape by it, for channels are collective."""
    mine = pyshmem.full(1, us, dtype=np.float64)
    slowest = pyshmem.zeros_like(mine)
    pyshmem.max_reduce(slowest, mine)
    return float(slowest[0])


def reductions(clock: Clock, ctx: object, small: list[int], large: list[int]) -> None:
    room = max(small + large) // 4
    source = pyshmem.array(
        np.arange(room, dtype=np.float32) % 1000 + pyshmem.my_pe(), heap="device"
    )
    out = pyshmem.zeros(room, dtype=np.float32, heap="device")
    expected = (np.arange(room) % 1000) * pyshmem.n_pes() + sum(range(pyshmem.n_pes()))
    to, start = shmem.wrap(out), shmem.wrap(source)

    def right(n: int) -> bool:
        return bool((pyshmem.to_numpy(out)[:n] == expected[:n]).all())

    bare = bare_reductions() if clock.on_gpu else {}

    def tell_reduction(op: str, nbytes: int, best: tuple[float, int, int], **more: object) -> None:
        beside = (
            {"bare_us": bare[nbytes], "of_bare": best[0] / bare[nbytes]} if nbytes in bare else {}
        )
        tell(op=op, bytes=nbytes, us=best[0], block=best[1], warps=best[2], **beside, **more)

    def tiles(nbytes: int, block: int, warps: int, two: bool, early: bool) -> tuple[float, bool]:
        n = nbytes // 4
        programs = -(-n // block)
        words = shmem.channel(programs, 4 * block)
        out[:] = 0
        call = partial(
            reduce_tiles[(programs,)], to, start, words, n, ctx, TWO=two, B=block, EARLY=early,
            num_warps=warps, **({"launch_pdl": True} if early else {}),
        )  # fmt: skip
        return of_all(clock(call, 20, graph=True)), right(n)

    for nbytes in small:
        shapes = next(shapes for most, shapes in SHAPES if nbytes <= most)
        for two in (False, True):
            best, well = (1e30, 0, 0), True
            for block, warps in shapes[: 1 if two or not clock.on_gpu else None]:
                us, good = tiles(nbytes, block, warps, two, False)
                best, well = min(best, (us, block, warps)), well and good
            early = {}
            if clock.on_gpu and not two:
                early["us_early"], good = tiles(nbytes, best[1], best[2], two, True)
                well = well and good
            name = "triton_all_reduce_two_shots" if two else "triton_all_reduce_one_shot"
            tell_reduction(name, nbytes, best, **early, right=well)
    for nbytes in large:
        best, well = (1e30, 0, 0), True
        grid = (132 if clock.on_gpu else 2,)
        words = shmem.channel(grid[0], 4)
        for block, warps in LARGE_SHAPES if clock.on_gpu else ((256, 8),):
            out[:] = 0
            call = partial(
                reduce_large[grid], to, start, nbytes // 4, words, ctx, B=block, num_warps=warps
            )
            us = clock(call, 5, graph=True)
            best, well = min(best, (us, block, warps)), well and right(nbytes // 4)
        tell_reduction("triton_all_reduce_grid", nbytes, best, right=well)


def main() -> None:
    with pyshmem.init(device_heap_size="2G") as job:
        on_gpu, ctx = job.device == "cuda", shmem.context()
        clock, mib = Clock(on_gpu), 1 << 20
        signals_and_barriers(clock, ctx)
        small = [8, 1024, 16384, 65536, 262144, mib] if on_gpu else [8, 1024]
        reductions(clock, ctx, small, [16 * mib, 64 * mib] if on_gpu else [4096])
        bandwidth(clock, ctx, [mib, 16 * mib, 256 * mib] if on_gpu else [4096])


if __name__ == "__main__":
    main()
