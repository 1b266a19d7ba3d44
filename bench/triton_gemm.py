# SPDX-License-Identifier: BSD-3-Clause
"""GEMM + all-scatter, N split over the PEs: four patterns beside torch.matmul + NCCL, a JSON line each.

    python -m pyshmem run -n 2 --device cuda bench/triton_gemm.py

Patterns: bulk (a kernel computes, a kernel scatters), two_streams (two kernels, a lock a tile), fused
(each tile goes to every PE as it is computed), specialised (some programs compute, others scatter). In
the interpreter (``--device sim``) it checks small sizes; its times mean nothing there.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import pyshmem
import pyshmem.triton as shmem
import triton
import triton.language as tl


@triton.jit
def place_of(tile, M, N, BM: tl.constexpr, BN: tl.constexpr, GROUP: tl.constexpr):
    """Row and column of a tile; tiles of GROUP rows stay together, for the L2 cache."""
    columns, rows = tl.cdiv(N, BN), tl.cdiv(M, BM)
    first = tile // (GROUP * columns) * GROUP
    height = tl.minimum(rows - first, GROUP)
    return (first + tile % (GROUP * columns) % height) * BM, tile % (GROUP * columns) // height * BN


@triton.jit
def compute(a, b, m, n, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows, columns = (m + tl.arange(0, BM)) % M, (n + tl.arange(0, BN)) % N
    left = a + rows[:, None] * K + tl.arange(0, BK)[None, :]
    right = b + tl.arange(0, BK)[:, None] * N + columns[None, :]
    acc = tl.zeros([BM, BN], tl.float32)
    for _ in range(0, K, BK):
        acc += tl.dot(tl.load(left), tl.load(right))
        left += BK
        right += BK * N
    return acc.to(a.dtype.element_ty)


@triton.jit
def scatter(c, tile, m, n, M, N, ctx, BM: tl.constexpr, BN: tl.constexpr):
    me, n_pes = shmem.my_pe(ctx), shmem.n_pes(ctx)
    rows, columns = (m + tl.arange(0, BM))[:, None], (n + tl.arange(0, BN))[None, :]
    dest = c + rows.to(tl.int64) * (N * n_pes) + me * N + columns
    for k in range(n_pes):
        shmem.store(dest, tile, (me + k) % n_pes, ctx, mask=(rows < M) & (columns < N))


@triton.jit
def gemm_kernel(
    own, locks, turn, a, b, M, N, K, ctx, LOCKS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    m, n = place_of(tl.program_id(0), M, N, BM, BN, GROUP)
    rows, columns = (m + tl.arange(0, BM))[:, None], (n + tl.arange(0, BN))[None, :]
    tile = compute(a, b, m, n, M, N, K, BM, BN, BK)
    tl.store(own + rows.to(tl.int64) * N + columns, tile, mask=(rows < M) & (columns < N))
    if LOCKS:
        shmem.signal_op(locks + tl.program_id(0), turn, shmem.SIGNAL_SET, shmem.my_pe(ctx), ctx)


@triton.jit
def scatter_kernel(
    c, own, locks, turn, M, N, tiles, ctx, LOCKS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    GROUP: tl.constexpr,
):  # fmt: skip
    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
        m, n = place_of(tile, M, N, BM, BN, GROUP)
        if LOCKS:
            shmem.signal_wait_until(locks + tile, shmem.CMP_GE, turn, ctx)
        rows, columns = (m + tl.arange(0, BM))[:, None], (n + tl.arange(0, BN))[None, :]
        inside = (rows < M) & (columns < N)
        value = tl.load(own + rows.to(tl.int64) * N + columns, mask=inside)
        scatter(c, value, m, n, M, N, ctx, BM, BN)


@triton.jit
def fused_kernel(
    c, a, b, M, N, K, ctx, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr
):
    m, n = place_of(tl.program_id(0), M, N, BM, BN, GROUP)
    scatter(c, compute(a, b, m, n, M, N, K, BM, BN, BK), m, n, M, N, ctx, BM, BN)


@triton.jit
def specialised_kernel(
    c, own, locks, turn, a, b, M, N, K, tiles, scatterers, ctx, BM: tl.constexpr, BN: tl.constexpr,
    BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """The first programs scatter, so that they are resident; the others compute."""
    program, computing = tl.program_id(0), tl.num_programs(0) - scatterers
    if program < scatterers:
        for tile in range(program, tiles, scatterers):
            m, n = place_of(tile, M, N, BM, BN, GROUP)
            shmem.signal_wait_until(locks + tile, shmem.CMP_GE, turn, ctx)
            rows, columns = (m + tl.arange(0, BM))[:, None], (n + tl.arange(0, BN))[None, :]
            inside = (rows < M) & (columns < N)
            value = tl.load(own + rows.to(tl.int64) * N + columns, mask=inside)
            scatter(c, value, m, n, M, N, ctx, BM, BN)
    else:
        for tile in range(program - scatterers, tiles, computing):
            m, n = place_of(tile, M, N, BM, BN, GROUP)
            rows, columns = (m + tl.arange(0, BM))[:, None], (n + tl.arange(0, BN))[None, :]
            value = compute(a, b, m, n, M, N, K, BM, BN, BK)
            tl.store(own + rows.to(tl.int64) * N + columns, value, mask=(rows < M) & (columns < N))
            shmem.signal_op(locks + tile, turn, shmem.SIGNAL_SET, shmem.my_pe(ctx), ctx)


class Problem:
    """Arrays of one shape, and the patterns as calls."""

    def __init__(self, job: Any, M: int, N: int, K: int) -> None:
        self.on_gpu, self.n_pes, self.M, self.N, self.K = (
            job.device == "cuda",
            job.n_pes,
            M,
            N // job.n_pes,
            K,
        )
        self.BM, self.BN, self.BK = (128, 256, 64) if self.on_gpu else (16, 16, 16)
        rng = np.random.default_rng(1)
        left = rng.integers(-1, 2, (M, K)).astype(np.float32)
        right = rng.integers(-1, 2, (K, N)).astype(np.float32)
        mine = np.ascontiguousarray(right[:, self.N * job.my_pe : self.N * (job.my_pe + 1)])
        self.a, self.b = self.local(left), self.local(mine)
        self.c, self.own = self.symmetric(M, N), self.symmetric(M, self.N)
        self.tiles = -(-M // self.BM) * -(-self.N // self.BN)
        self.locks = shmem.wrap(pyshmem.zeros(self.tiles, dtype=np.int64, heap="device"))
        self.ctx, self.turn = shmem.context(), 0
        self.expected = left[:64] @ right  # integers up to 2 ** 8 are exact in bfloat16

    def local(self, values: np.ndarray) -> Any:
        if not self.on_gpu:
            return shmem.wrap(values)
        import torch

        return torch.from_numpy(values).cuda().bfloat16()

    def symmetric(self, rows: int, columns: int) -> Any:
        if not self.on_gpu:
            return shmem.wrap(pyshmem.zeros((rows, columns), dtype=np.float32, heap="device"))
        import torch

        array = pyshmem.zeros((rows, columns), dtype=np.int16, heap="device")
        return torch.as_tensor(array, device="cuda").view(torch.bfloat16)

    def options(self) -> dict[str, int]:
        launch = {"num_warps": 8, "num_stages": 3} if self.on_gpu else {}
        return {"BM": self.BM, "BN": self.BN, "BK": self.BK, "GROUP": 8, **launch}

    def tile_options(self) -> dict[str, int]:
        launch = {"num_warps": 8} if self.on_gpu else {}
        return {"BM": self.BM, "BN": self.BN, "GROUP": 8, **launch}

    def gemm(self, locks: bool = False) -> None:
        gemm_kernel[(self.tiles,)](
            self.own, self.locks, self.turn, self.a, self.b, self.M, self.N, self.K, self.ctx,
            LOCKS=locks, **self.options(),
        )  # fmt: skip

    def scatter(self, programs: int, locks: bool = False) -> None:
        scatter_kernel[(programs,)](
            self.c, self.own, self.locks, self.turn, self.M, self.N, self.tiles, self.ctx,
            LOCKS=locks, **self.tile_options(),
        )  # fmt: skip

    def bulk(self) -> None:
        self.gemm()
        self.scatter(132 if self.on_gpu else 2)

    def two_streams(self) -> None:
        self.turn += 1
        with self.other_stream():
            if self.on_gpu:
                self.scatter(8, True)
        self.gemm(True)
        if not self.on_gpu:
            self.scatter(2, True)
        self.join()

    def fused(self) -> None:
        fused_kernel[(self.tiles,)](
            self.c, self.a, self.b, self.M, self.N, self.K, self.ctx, **self.options()
        )

    def specialised(self) -> None:
        self.turn += 1
        programs, scatterers = (132, 8) if self.on_gpu else (4, 1)
        specialised_kernel[(programs,)](
            self.c, self.own, self.locks, self.turn, self.a, self.b, self.M, self.N, self.K, self.tiles,
            scatterers, self.ctx, **self.options(),
        )  # fmt: skip

    def other_stream(self) -> Any:
        if not self.on_gpu:
            return contextlib.nullcontext()
        import torch

        self.stream = getattr(self, "stream", None) or torch.cuda.Stream()
        self.stream.wait_stream(torch.cuda.current_stream())
        return torch.cuda.stream(self.stream)

    def join(self) -> None:
        if self.on_gpu:
            import torch

            torch.cuda.current_stream().wait_stream(self.stream)

    def clear(self) -> None:
        if self.on_gpu:
            self.c.zero_()
        else:
            self.c.array[...] = 0
        pyshmem.barrier_all()

    def right(self) -> bool:
        if self.on_gpu:
            got = self.c[:64].float().cpu().numpy()
            return bool(np.allclose(got, self.expected, rtol=0.01, atol=0.5))
        return bool((pyshmem.to_numpy(self.c.array)[:64] == self.expected).all())


def milliseconds(problem: Problem, call: Callable[[], object], repeat: int = 10) -> float:
    if not problem.on_gpu:
        begin = time.perf_counter()
        call()
        return 1e3 * (time.perf_counter() - begin)
    import torch

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


def with_nccl(problem: Problem) -> Callable[[], object]:
    import torch

    parts = [
        torch.empty(problem.M, problem.N, dtype=torch.bfloat16, device="cuda")
        for _ in range(problem.n_pes)
    ]

    def call() -> object:
        torch.distributed.all_gather(parts, problem.a @ problem.b)
        return torch.cat(parts, dim=1)

    return call


def main() -> None:
    with pyshmem.init(device_heap_size="3G") as job:
        on_gpu = job.device == "cuda"
        shapes = [(64, 32 * job.n_pes, 32)]
        if on_gpu:
            import torch

            torch.distributed.init_process_group(
                "nccl", init_method="tcp://127.0.0.1:29555", rank=job.my_pe, world_size=job.n_pes
            )
            shapes = [(8192, 4608, 36864), (8192, 8192, 28672), (8192, 8192, 2048)]
        for shape in shapes:
            problem = Problem(job, *shape)
            pyshmem.barrier_all()
            row: dict[str, object] = {"op": "gemm_all_scatter", "MNK": shape}
            row["gemm_ms"] = milliseconds(problem, problem.gemm)
            for name in ("bulk", "two_streams", "fused", "specialised"):
                problem.clear()
                row[f"{name}_ms"] = milliseconds(problem, getattr(problem, name))
                pyshmem.barrier_all()
                row[f"{name}_right"] = problem.right()
            if on_gpu:
                row["torch_matmul_ms"] = milliseconds(problem, lambda p=problem: p.a @ p.b)
                row["torch_nccl_ms"] = milliseconds(problem, with_nccl(problem))
            if job.my_pe == 0:
                print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
