# SPDX-License-Identifier: BSD-3-Clause
"""GEMM + all-scatter, N split over the PEs: four patterns beside torch.matmul + NCCL, a JSON line each.

    python -m pyshmem run -n 2 --device cuda bench/triton_gemm.py

Patterns: bulk (a kernel computes, a kernel scatters), two_streams (two kernels, a lock a tile), engine
(the same, but copy engines scatter groups of rows, and a stream waits for their tiles), shards (cuBLAS
computes pieces of the rows, and copy engines scatter one while it computes the next), fused (each tile
goes to every PE as it is computed), descriptors (the same by tensor descriptors, also of the peers'
memory: a tile leaves while the next one is computed), specialised (some programs compute, others
scatter), each with the best of a few shapes of tiles. ``ms`` is of calls in CUDA graphs where a pattern
can be captured, as what a program calls again and again is; ``eager`` of calls from Python. ``wire`` is
a copy of what a PE sends to one other, all PEs at a time: no pattern is quicker. In the interpreter
(``--device sim``) it checks small sizes; its times mean nothing.

A kernel is loaded to the GPU at its first launch, and that may wait for kernels that run. So all of them
have run before one waits for another, and ``turn``, which grows, is no reason to compile them anew.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from triton_gemm_kernels import (
    counting_kernel,
    descriptor_kernel,
    fused_kernel,
    gemm_kernel,
    scatter_kernel,
    specialised_kernel,
)

import pyshmem
import pyshmem.triton as shmem
import triton


class Tile(NamedTuple):
    """The shape of a tile of C, the depth of a step, and how a program computes it."""

    BM: int
    BN: int
    BK: int
    num_warps: int
    num_stages: int


#: One program a multiprocessor; and two, of which one computes while the other stores.
TILES = (Tile(128, 256, 64, 8, 3), Tile(128, 128, 64, 4, 3))
#: Of kernels whose tiles go by descriptors: one program a multiprocessor.
DESCRIBED = (Tile(128, 256, 64, 8, 3), Tile(128, 128, 64, 8, 4), Tile(128, 128, 64, 4, 4))
#: What can be captured: its arguments are the same in each call.
CAPTURED = ("gemm", "torch_matmul", "wire", "bulk", "fused", "descriptors", "shards")
SCATTERERS = (8, 16)
PIECES = (4, 8, 16)  # of the rows, for cuBLAS
Call = Callable[[], object]


class Problem:
    """Arrays of one shape, and the patterns as calls."""

    def __init__(self, job: Any, M: int, N: int, K: int) -> None:
        self.on_gpu, self.n_pes, self.my_pe = job.device == "cuda", job.n_pes, job.my_pe
        self.M, self.N, self.K = M, N // job.n_pes, K
        # Streams wait for tiles of products that fill the GPU: by the driver, which needs no room there.
        pyshmem.streams.set_signals("driver")
        mine = slice(self.N * job.my_pe, self.N * (job.my_pe + 1))
        if self.on_gpu:
            self._on_gpu(N, mine)
        else:
            rng = np.random.default_rng(1)
            left = rng.integers(-1, 2, (M, K)).astype(np.float32)
            right = rng.integers(-1, 2, (K, N)).astype(np.float32)
            self.a, self.b = map(shmem.wrap, (left, np.ascontiguousarray(right[:, mine])))
            self.expected = left[:64] @ right
        self.c, self.own = self.symmetric(M, N), self.symmetric(M, self.N)
        most = max(self.tiles(tile) for tile in TILES) if self.on_gpu else self.tiles(Tile(*SMALL))
        self.locks = shmem.wrap(pyshmem.zeros(most, dtype=np.int64, heap="device"))
        self.counts = {tile: pyshmem.zeros(64, dtype=np.uint64, heap="device") for tile in TILES}
        self.ctx, self.turn = shmem.context(), 0

    def _on_gpu(self, N: int, mine: slice) -> None:
        """The same numbers on all PEs. Sums of -1, 0 and 1 are exact in float32."""
        import torch

        dice = torch.Generator("cuda").manual_seed(1)

        def some(rows: int, columns: int) -> Any:
            values = torch.randint(
                -1, 2, (rows, columns), generator=dice, dtype=torch.int8, device="cuda"
            )
            return values.bfloat16()

        self.a, right = some(self.M, self.K), some(self.K, N)
        self.b = right[:, mine].contiguous()
        self.expected = self.a[:64].float() @ right.float()
        self.stream = torch.cuda.Stream()

        def room(size: int, alignment: int, stream: int | None) -> Any:
            return torch.empty(size, dtype=torch.int8, device="cuda")

        triton.set_allocator(room)  # for descriptors that kernels make

    def symmetric(self, rows: int, columns: int) -> Any:
        if not self.on_gpu:
            return shmem.wrap(pyshmem.zeros((rows, columns), dtype=np.float32, heap="device"))
        import torch

        array = pyshmem.zeros((rows, columns), dtype=np.int16, heap="device")
        return torch.as_tensor(array, device="cuda").view(torch.bfloat16)

    def tiles(self, tile: Tile) -> int:
        return -(-self.M // tile.BM) * -(-self.N // tile.BN)

    def options(self, tile: Tile, depth: bool = True) -> dict[str, int]:
        chosen = {"BM": tile.BM, "BN": tile.BN, "GROUP": 8}
        if depth:
            chosen["BK"] = tile.BK
        if self.on_gpu:
            chosen["num_warps"] = tile.num_warps
            if depth:
                chosen["num_stages"] = tile.num_stages
        return chosen

    # -- the kernels ---------------------------------------------------------------------------------

    def gemm(self, tile: Tile, locks: bool = False) -> None:
        gemm_kernel[(self.tiles(tile),)](
            self.own, self.locks, self.turn, self.a, self.b, self.M, self.N, self.K, self.ctx,
            LOCKS=locks, **self.options(tile),
        )  # fmt: skip

    def scatter(self, tile: Tile, programs: int, locks: bool = False) -> None:
        scatter_kernel[(programs,)](
            self.c, self.own, self.locks, self.turn, self.M, self.N, self.tiles(tile), self.ctx,
            LOCKS=locks, **self.options(tile, depth=False),
        )  # fmt: skip

    # -- the patterns: for a shape of tiles, the ways to call one --------------------------------------

    def bulk(self, tile: Tile) -> Iterator[Call]:
        def call() -> None:
            self.gemm(tile)
            self.scatter(tile, 132 if self.on_gpu else 2)

        yield call

    def fused(self, tile: Tile) -> Iterator[Call]:
        yield lambda: fused_kernel[(self.tiles(tile),)](
            self.c, self.a, self.b, self.M, self.N, self.K, self.ctx, **self.options(tile)
        )

    def descriptors(self, tile: Tile) -> Iterator[Call]:
        programs = min(132, self.tiles(tile)) if self.on_gpu else 2
        yield lambda: descriptor_kernel[(programs,)](
            self.c, self.a, self.b, self.M, self.N, self.K, self.ctx, N_PES=self.n_pes,
            **self.options(tile),
        )  # fmt: skip

    def two_streams(self, tile: Tile) -> Iterator[Call]:
        for programs in SCATTERERS if self.on_gpu else (2,):
            self.one_after_the_other(tile, programs)
            if self.on_gpu:
                yield lambda programs=programs: self.side_by_side(tile, programs)
            else:
                yield lambda programs=programs: self.one_after_the_other(tile, programs)

    def one_after_the_other(self, tile: Tile, programs: int) -> None:
        """Both kernels on one stream: the scatterers find all locks open, and wait for nobody."""
        self.turn += 1
        self.gemm(tile, True)
        self.scatter(tile, programs, True)

    def side_by_side(self, tile: Tile, programs: int) -> None:
        """The scatterers begin first: behind the GEMM's programs they would only be let in last."""
        import torch

        self.turn += 1
        main = torch.cuda.current_stream()
        self.stream.wait_stream(main)
        with torch.cuda.stream(self.stream):
            self.scatter(tile, programs, True)
        self.gemm(tile, True)
        main.wait_stream(self.stream)

    def engine(self, tile: Tile) -> Iterator[Call]:
        """Rows of a group go by a copy in two dimensions, behind a wait for the count of their tiles."""
        counts = self.counts[tile if self.on_gpu else TILES[0]]
        words, calls, high = shmem.wrap(counts), [0], 8 * tile.BM

        def call() -> None:
            calls[0] += 1
            if self.on_gpu:
                import torch

                main, flat = torch.cuda.current_stream(), self.c.view(torch.int16).view(-1)
                self.stream.wait_stream(main)
            else:
                flat = self.c.array.reshape(-1)
            counting_kernel[(self.tiles(tile),)](
                self.c,
                words,
                self.a,
                self.b,
                self.M,
                self.N,
                self.K,
                self.ctx,
                **self.options(tile),
            )
            for group, first in enumerate(range(0, self.M, high)):
                rows = min(high, self.M - first)
                tiles = calls[0] * -(-rows // tile.BM) * -(-self.N // tile.BN)
                stream = {"stream": self.stream} if self.on_gpu else {}
                pyshmem.signal_wait_until(counts[group:], pyshmem.CMP_GE, tiles, **stream)
                self.send_rows(flat, first, rows)
            if self.on_gpu:
                main.wait_stream(self.stream)
            else:
                pyshmem.quiet()

        yield call

    def send_rows(self, flat: Any, first: int, rows: int) -> None:
        """This PE's columns of ``rows`` rows of C to all, on the stream beside where there is one."""
        pitch = self.N * self.n_pes
        own = flat[first * pitch + self.my_pe * self.N :]
        for k in range(1, self.n_pes):
            pyshmem.ibput(
                own, own, (self.my_pe + k) % self.n_pes, bsize=self.N, dst=pitch, sst=pitch,
                nblocks=rows, **({"stream": self.stream} if self.on_gpu else {}),
            )  # fmt: skip

    def wire(self) -> None:
        """As many bytes as a PE has to send to one other, in one piece by a copy engine."""
        import torch

        flat = self.c.view(torch.int16).view(-1)
        half = flat[: self.M * self.N]
        stream = torch.cuda.current_stream()
        pyshmem.put(half, half, (self.my_pe + 1) % self.n_pes, stream=stream)

    def shards(self, tile: Tile) -> Iterator[Call]:
        """Tiles are cuBLAS's: only the number of pieces is this pattern's to choose."""
        for pieces in PIECES if tile is TILES[0] or not self.on_gpu else ():
            yield lambda rows=-(-self.M // pieces): self.in_pieces(rows)

    def in_pieces(self, rows: int) -> None:
        mine = slice(self.my_pe * self.N, (self.my_pe + 1) * self.N)
        for first in range(0, self.M, rows):
            part = slice(first, min(first + rows, self.M))
            if self.on_gpu:
                import torch

                torch.mm(self.a[part], self.b, out=self.c[part, mine])
                self.stream.wait_stream(torch.cuda.current_stream())
                flat = self.c.view(torch.int16).view(-1)
            else:
                self.c.array[part, mine] = self.a.array[part] @ self.b.array
                flat = self.c.array.reshape(-1)
            self.send_rows(flat, first, part.stop - first)
        if self.on_gpu:
            torch.cuda.current_stream().wait_stream(self.stream)
        else:
            pyshmem.quiet()

    def specialised(self, tile: Tile) -> Iterator[Call]:
        at_once = 132 * (2 if tile.num_warps == 4 else 1)
        for scatterers in SCATTERERS if self.on_gpu else (1,):

            def call(scatterers: int = scatterers) -> None:
                self.turn += 1
                specialised_kernel[(at_once if self.on_gpu else 4,)](
                    self.c, self.own, self.locks, self.turn, self.a, self.b, self.M, self.N, self.K,
                    self.tiles(tile), scatterers, self.ctx, **self.options(tile),
                )  # fmt: skip

            yield call

    # -- the results ---------------------------------------------------------------------------------

    def clear(self) -> None:
        if self.on_gpu:
            import torch

            self.c.zero_()
            torch.cuda.synchronize()
        else:
            self.c.array[...] = 0
        pyshmem.barrier_all()

    def right(self) -> bool:
        if self.on_gpu:
            import torch

            torch.cuda.synchronize()
            pyshmem.barrier_all()
            return torch.allclose(self.c[:64].float(), self.expected, rtol=0.01, atol=0.5)
        pyshmem.barrier_all()
        return bool((pyshmem.to_numpy(self.c.array)[:64] == self.expected).all())


def milliseconds(problem: Problem, call: Call, repeat: int = 5) -> float:
    if not problem.on_gpu:
        begin = time.perf_counter()
        call()
        return 1e3 * (time.perf_counter() - begin)
    import torch

    call()
    found = []
    for _ in range(5):
        torch.cuda.synchronize()
        pyshmem.barrier_all()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        call()
        begin.record()
        for _ in range(repeat):
            call()
        end.record()
        end.synchronize()
        found.append(begin.elapsed_time(end) / repeat)
    pyshmem.barrier_all()
    return sorted(found)[2]


def captured(call: Call) -> Call:
    import torch

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def times_as_long(problem: Problem, call: Call, other: Call, rounds: int = 5) -> float:
    """How many times as long as ``other`` it takes, in turn: a GPU slows down as it gets warm."""
    ratios = [
        slowest(milliseconds(problem, call)) / slowest(milliseconds(problem, other))
        for _ in range(rounds if problem.on_gpu else 1)
    ]
    return sorted(ratios)[len(ratios) // 2]


def slowest(ms: float) -> float:
    """Of all PEs, so that they agree on which tile is the best."""
    worst = pyshmem.zeros(1)
    pyshmem.max_reduce(worst, pyshmem.full(1, ms))
    return float(worst[0])


def with_nccl(problem: Problem, whole: bool) -> Call:
    """The product and an all-gather; ``whole``: its columns are put beside each other, as C has them."""
    import torch

    parts = torch.empty(problem.n_pes, problem.M, problem.N, dtype=torch.bfloat16, device="cuda")

    def call() -> object:
        torch.distributed.all_gather_into_tensor(parts, problem.a @ problem.b)
        return torch.cat(tuple(parts), dim=1) if whole else None

    return call


def measure(problem: Problem, shape: tuple[int, int, int]) -> None:
    """A line as soon as there is one: who is stopped keeps what he has."""
    alone: list[Call] = []  # the best GEMM

    def tell(name: str, calls: dict[str, Call], **more: object) -> None:
        if problem.on_gpu and name in CAPTURED:
            more["eager"] = round(min(slowest(milliseconds(problem, c)) for c in calls.values()), 4)
            calls = {tile: captured(call) for tile, call in calls.items()}
        found = {tile: slowest(milliseconds(problem, call)) for tile, call in calls.items()}
        best = min(found, key=lambda tile: found[tile])
        row = {"op": "gemm_all_scatter", "MNK": shape, "way": name, "ms": round(found[best], 4)}
        if alone:
            row["of_gemm"] = round(times_as_long(problem, calls[best], alone[0]), 3)
        else:
            alone.append(calls[best])
        row |= {"tile": best, "all_ms": {k: round(v, 4) for k, v in found.items()}} | more
        if problem.my_pe == 0:
            print(json.dumps(row), flush=True)

    tiles = TILES if problem.on_gpu else (Tile(*SMALL),)
    tell("gemm", {f"{t.BM}x{t.BN}": lambda t=t: problem.gemm(t) for t in tiles})
    if problem.on_gpu:
        tell("torch_matmul", {"": lambda: problem.a @ problem.b})
        tell("wire", {"": problem.wire})
        tell("torch_nccl", {"": with_nccl(problem, True)})
        tell("torch_nccl_parts", {"": with_nccl(problem, False)})
    for name in ("fused", "descriptors", "shards", "engine", "specialised", "bulk", "two_streams"):
        calls = {
            f"{tile.BM}x{tile.BN} {tile.num_warps} {number}": call
            for tile in (DESCRIBED if problem.on_gpu and name == "descriptors" else tiles)
            for number, call in enumerate(getattr(problem, name)(tile))
        }
        right = True
        for call in calls.values():
            problem.clear()
            call()
            right &= problem.right()
        tell(name, calls, right=right)


#: Of the interpreter.
SMALL = (16, 16, 16, 4, 1)


def main() -> None:
    with pyshmem.init(device_heap_size="3G") as job:
        shapes = [(64, 32 * job.n_pes, 32)]
        if job.device == "cuda":
            import torch

            torch.distributed.init_process_group(
                "nccl", init_method="tcp://127.0.0.1:29555", rank=job.my_pe, world_size=job.n_pes
            )
            shapes = [(8192, 8192, 2048), (8192, 4608, 36864), (8192, 8192, 28672)]
        for shape in shapes:
            problem = Problem(job, *shape)
            pyshmem.barrier_all()
            measure(problem, shape)
        if job.device == "cuda":
            torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
