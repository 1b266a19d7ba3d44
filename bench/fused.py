# SPDX-License-Identifier: BSD-3-Clause
"""Fused operations beside NCCL in series, PyTorch's symm_mem and the GEMM alone; a JSON line each.

    python -m pyshmem run -n 2 --device cuda bench/fused.py [--only norm,gemm] [--plot FOLDER]
    python -m pyshmem run -n 2 --device cuda bench/fused.py --timeline FOLDER    (a call of each
    algorithm)

Each row has the median of five blocks of calls, the maximum over the PEs, in microseconds, eager and in
a CUDA graph, and for each algorithm of pyshmem one row; "algorithm" is null where the table chooses.
With ``--device sim`` it runs toy sizes and checks nothing but that every row is there: times mean
nothing.
"""

from __future__ import annotations

import functools
import json
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import torch
import torch.distributed as dist
import torch.nn.functional as functional

from fused_timeline import timelines
from options import some_of

import pyshmem
import pyshmem.fused as fused
import pyshmem.interop.torch as symmetric
from pyshmem.bench.torch_clock import TorchClock
from pyshmem.fused._shared.batch_invariant import INVARIANT
from pyshmem.host.job.runtime import gpu_count

TOKENS = (1, 6, 16, 32, 64, 128, 138, 512, 2048, 8192, 16384)
HIDDEN = (6144, 8192)
ALL_GATHER = (
    (8192, 11008, 4096), (8192, 14336, 4096), (8192, 28672, 8192), (8192, 53248, 16384),
    (8192, 8192, 2048), (2048, 28672, 8192), (128, 28672, 8192), (32768, 11008, 4096),
)  # fmt: skip
REDUCE = (
    (8192, 4096, 11008), (8192, 4096, 14336), (8192, 8192, 28672), (8192, 16384, 53248),
    (8192, 8192, 2048), (2048, 8192, 28672), (128, 8192, 28672), (32768, 4096, 11008),
)  # fmt: skip
#: Shapes whose two modes stand side by side: by default and with ``batch_invariant=True``.
BOTH_MODES = ((8192, 11008, 4096), (128, 11008, 4096))
SEQUENCES = ((1, 65536), (32, 4096))  # of flash decode: how many, and keys of each
SIZES_OF_EXPERTS = (8192, "throughput"), (128, "decode")
ALGORITHMS = {
    "norm": ("one_shot", "pull", "push", "two_shot", INVARIANT),
    "gemm": ("copy_engine", "persistent", "unfused"),
}


class Bench(TorchClock):
    """Times calls on all PEs and prints rows on PE 0."""

    def __init__(self, job: Any, tokens: tuple[int, ...] = ()) -> None:
        super().__init__(job)
        self.rows: list[dict[str, Any]] = []
        self.tokens = tokens  # of norms; none: all of ``TOKENS``

    def row(
        self, op: str, peer: str, shape: Any, call: Callable[[], Any], algorithm: Any = None
    ) -> None:
        """Measure ``call``; one that raises gives a row that says so, on all PEs alike."""
        row = {
            "op": op,
            "peer": peer,
            "algorithm": algorithm,
            "shape": shape,
            "pes": self.job.n_pes,
        }
        for name, graph in (("us_eager", False), ("us_graph", True)):
            try:
                row[name] = round(self.slowest(self.us(call, graph=graph)), 2)
            except Exception as error:
                row[name], row["error"] = None, f"{type(error).__name__}: {error}"[:160]
                self.slowest(0.0)
        self.rows.append(row)
        if self.job.my_pe == 0:
            print(json.dumps(row), flush=True)


# ---- the operations, and what stands beside them ---------------------------------------------------


def norm(bench: Bench) -> None:
    """All-reduce + residual + RMSNorm, with and without FP8, MXFP8 and NVFP4."""
    for hidden in HIDDEN if bench.on_gpu else (64,):
        for tokens in bench.tokens or (TOKENS if bench.on_gpu else (1, 5)):
            _norm_rows(bench, tokens, hidden)


def _norm_rows(bench: Bench, tokens: int, hidden: int) -> None:
    x, residual = bench.random(tokens, hidden), bench.random(tokens, hidden)
    weight, shape = bench.random(hidden), [tokens, hidden]

    def ours(algorithm: str | None, quantize: str | None = None) -> Any:
        return fused.all_reduce_rmsnorm(
            x, weight, residual=residual, quantize=quantize, algorithm=algorithm
        )

    for algorithm in (None, *ALGORITHMS["norm"]):
        bench.row("norm", "pyshmem", shape, lambda r=algorithm: ours(r), algorithm)
    if not bench.on_gpu:
        return
    for name in ("row", "mxfp8_swizzled", "nvfp4_swizzled"):
        op = "norm_fp8" if name == "row" else f"norm_{name.partition('_')[0]}"
        bench.row(op, "pyshmem", shape, lambda q=name: ours(None, q))
    compiled = torch.compile(_norm)

    def in_series() -> Any:
        dist.all_reduce(x)
        return compiled(x, residual, weight)

    bench.row("norm", "nccl", shape, in_series)
    if tokens * hidden * 2 <= 1 << 26:
        _norm_by_symm_mem(bench, shape, residual, weight, compiled)


def _norm(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor) -> Any:
    total = x + residual
    return functional.rms_norm(total, (total.shape[-1],), weight), total


def _norm_by_symm_mem(bench: Bench, shape: Any, residual: Any, weight: Any, compiled: Any) -> None:
    import torch.distributed._symmetric_memory as symm_mem

    group = dist.group.WORLD.group_name
    x = symm_mem.empty(shape[0] * shape[1], device=bench.device, dtype=torch.bfloat16)
    symm_mem.rendezvous(x, group)
    for name in ("one_shot_all_reduce", "two_shot_all_reduce_"):

        def call(name: str = name) -> Any:
            total = getattr(torch.ops.symm_mem, name)(x, "sum", group)
            return compiled(total.view(shape), residual, weight)

        bench.row("norm", f"symm_mem {name}", shape, call)


def gemm(bench: Bench) -> None:
    """All-gather + GEMM, GEMM + reduce-scatter, GEMM + all-reduce."""
    n = bench.job.n_pes
    for m, width, k in ALL_GATHER if bench.on_gpu else ((32, 16 * n, 16),):
        _all_gather_gemm(bench, m, width, k)
    for m, width, k in REDUCE if bench.on_gpu else ((32, 16, 16 * n),):
        _gemm_reduce(bench, m, width, k)


def _all_gather_gemm(bench: Bench, m: int, width: int, k: int) -> None:
    n, shape = bench.job.n_pes, [m, width, k]
    shard, w = bench.random(m // n, k), bench.random(k, width // n)
    whole = bench.random(m, k)
    bench.row("ag_gemm", "gemm alone", shape, lambda: whole @ w)
    for algorithm in (None, *ALGORITHMS["gemm"]):
        bench.row(
            "ag_gemm", "pyshmem", shape,
            lambda r=algorithm: fused.all_gather_matmul(shard, w, algorithm=r), algorithm,
        )  # fmt: skip
    if bench.on_gpu:

        def in_series() -> Any:
            dist.all_gather_into_tensor(whole, shard)
            return whole @ w

        bench.row("ag_gemm", "nccl", shape, in_series)
        call = by_symm_mem("fused_all_gather_matmul", shard, [w], 0)
        bench.row("ag_gemm", "symm_mem", shape, call)


def by_symm_mem(name: str, *given: Any) -> Callable[[], Any]:
    """A call of PyTorch's operator; of one that this PyTorch has not, its row says so."""
    import torch.distributed._symmetric_memory as symm_mem  # registers the operators

    group = dist.group.WORLD.group_name
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # newer versions need no such call
        symm_mem.enable_symm_mem_for_group(group)
    return lambda: getattr(torch.ops.symm_mem, name)(*given, group)


def _gemm_reduce(bench: Bench, m: int, width: int, k: int) -> None:
    n, shape = bench.job.n_pes, [m, width, k]
    x, w = bench.random(m, k // n), bench.random(k // n, width)
    share = bench.random(m // n, width)
    bench.row("gemm_rs", "gemm alone", shape, lambda: x @ w)
    for op, ours in (
        ("gemm_rs", fused.matmul_reduce_scatter),
        ("gemm_ar", fused.matmul_all_reduce),
    ):
        for algorithm in (None, *ALGORITHMS["gemm"]):
            bench.row(
                op, "pyshmem", shape, lambda f=ours, r=algorithm: f(x, w, algorithm=r), algorithm
            )
    if bench.on_gpu:

        def all_reduced() -> Any:
            whole = x @ w
            dist.all_reduce(whole)
            return whole

        bench.row("gemm_rs", "nccl", shape, lambda: dist.reduce_scatter_tensor(share, x @ w))
        bench.row("gemm_ar", "nccl", shape, all_reduced)
        call = by_symm_mem("fused_matmul_reduce_scatter", x, w, "sum", 0)
        bench.row("gemm_rs", "symm_mem", shape, call)


def experts(bench: Bench) -> None:
    """Dispatch and combine beside permutes and NCCL's all-to-all: throughput and decoding."""
    hidden, n_experts, top = (7168, 64, 8) if bench.on_gpu else (32, 4 * bench.job.n_pes, 2)
    for tokens, mode in SIZES_OF_EXPERTS if bench.on_gpu else ((6, "decode"),):
        x = bench.random(tokens, hidden)
        scores = torch.randn(tokens, n_experts, device=bench.device)
        weights, ids = scores.softmax(-1).topk(top)
        for quantize in (None, "fp8", "mxfp8", "nvfp4") if bench.on_gpu else (None,):
            _experts_row(bench, (x, ids, weights), n_experts, mode, quantize)
        if bench.on_gpu:
            call = _by_permutes(bench, x, ids, weights)
            bench.row("experts_bf16", "nccl", [tokens, hidden, top], call)


def _experts_row(
    bench: Bench, given: tuple[Any, Any, Any], n_experts: int, mode: str, quantize: str | None
) -> None:
    x, ids, weights = given
    tokens, hidden = x.shape

    def dispatch(algorithm: str | None = None) -> Any:
        return fused.expert_dispatch(
            x, ids, n_experts, quantize=quantize, mode=mode, max_tokens=tokens, algorithm=algorithm
        )

    handle = dispatch()[1]
    y = x.new_ones(handle.rows.shape[0], hidden)  # what the experts would make of it

    def both() -> Any:
        return fused.expert_combine(y, dispatch()[1], weights)

    shape, name = [tokens, hidden, ids.shape[1]], quantize or "bf16"
    bench.row(f"dispatch_{name}", "pyshmem", shape, dispatch, mode)
    if mode == "throughput" and quantize is None:
        for algorithm in ("simple", "copy_engine"):
            call = functools.partial(dispatch, algorithm)
            bench.row(f"dispatch_{name}", "pyshmem", shape, call, f"{mode}, {algorithm}")
    if quantize is None:
        bench.row(
            "combine_bf16", "pyshmem", shape, lambda: fused.expert_combine(y, handle, weights), mode
        )
    bench.row(f"experts_{name}", "pyshmem", shape, both, mode)


def norm_formats(bench: Bench) -> None:
    """Norms by what they give, in graphs and in turn: the least of five rounds."""
    hidden = 7168 if bench.on_gpu else 32
    names = None, "mxfp8", "mxfp8_swizzled", "nvfp4", "nvfp4_swizzled"
    for tokens in bench.tokens or ((1, 16, 128, 512, 2048) if bench.on_gpu else (2,)):
        x, residual = bench.random(tokens, hidden), bench.random(tokens, hidden)
        weight = bench.random(hidden)
        calls = {
            name or "bf16": functools.partial(
                fused.all_reduce_rmsnorm, x, weight, residual=residual, quantize=name
            )
            for name in names
        }
        _in_turn(bench, "norm", [tokens, hidden], calls, {})


def dispatch_formats(bench: Bench) -> None:
    """Dispatches by what travels, in graphs and in turn, the least of five rounds; bytes to a member."""
    hidden, n_experts, top = (7168, 64, 8) if bench.on_gpu else (32, 4 * bench.job.n_pes, 2)
    for tokens in bench.tokens or ((128, 2048, 8192, 16384) if bench.on_gpu else (2,)):
        x = bench.random(tokens, hidden)
        ids = torch.randn(tokens, n_experts, device=bench.device).topk(top).indices
        calls, nbytes = {}, {}
        for name in (None, "fp8", "mxfp8", "nvfp4") if bench.on_gpu else (None, "mxfp8"):
            call = functools.partial(
                fused.expert_dispatch, x, ids, n_experts, quantize=name, max_tokens=tokens
            )
            rows, handle = call()
            calls[name or "bf16"] = call
            scales = 0 if handle.scales is None else handle.scales.nbytes
            nbytes[name or "bf16"] = (rows.nbytes + scales) // bench.job.n_pes
        _in_turn(bench, "dispatch", [tokens, hidden, top], calls, nbytes)


def _in_turn(
    bench: Bench, op: str, shape: list[int], calls: dict[str, Any], nbytes: dict[str, int]
) -> None:
    for name, times in bench.turns(calls, 5).items():
        us = round(bench.slowest(min(times)), 2)
        row = {"op": op, "output": name, "shape": shape, "pes": bench.job.n_pes, "us_graph": us}
        if nbytes:
            row["bytes_to_each"] = nbytes[name]
        if bench.job.my_pe == 0:
            print(json.dumps(row), flush=True)


def _by_permutes(bench: Bench, x: Any, ids: Any, weights: Any) -> Callable[[], Any]:
    """Rows sorted by expert, ``all_to_all_single``, and the same way back."""
    n, top = bench.job.n_pes, ids.shape[1]

    def call() -> Any:
        order = ids.flatten().argsort()
        sent = torch.bincount(ids.flatten(), minlength=64).view(n, -1).sum(1)
        got = torch.empty_like(sent)
        dist.all_to_all_single(got, sent)
        out_sizes, in_sizes = got.tolist(), sent.tolist()
        rows = x[order // top]
        there = x.new_empty(sum(out_sizes), x.shape[1])
        dist.all_to_all_single(there, rows, out_sizes, in_sizes)
        back = torch.empty_like(rows)
        dist.all_to_all_single(back, there, in_sizes, out_sizes)
        result = torch.zeros_like(x, dtype=torch.float32)
        scaled = back.float() * weights.flatten()[order, None]
        return result.index_add_(0, order // top, scaled).to(x.dtype)

    return call


def decode(bench: Bench) -> None:
    """Flash decode with the keys split over the PEs, beside one GPU's own attention over all keys."""
    n = bench.job.n_pes
    keys, heads, groups, width = (65536, 32, 8, 128) if bench.on_gpu else (64, 4, 2, 16)
    q = bench.random(1, heads, width)
    k, v = (bench.random(1, keys // n, groups, width) for _ in range(2))
    bench.row("flash_decode", "pyshmem", [keys, heads, width], lambda: fused.flash_decode(q, k, v))
    whole = [bench.random(1, groups, keys, width) for _ in range(2)]

    def alone() -> Any:
        return functional.scaled_dot_product_attention(q[:, :, None], *whole, enable_gqa=True)

    bench.row("flash_decode", "one GPU", [keys, heads, width], alone)


def invariant(bench: Bench) -> None:
    """Operations by default and with ``batch_invariant=True``; norms are in their part."""
    n = bench.job.n_pes
    for m, width, k in BOTH_MODES if bench.on_gpu else ((8 * n, 16 * n, 16 * n),):
        shard, w = bench.random(m // n, k), bench.random(k, width // n)
        x, down = bench.random(m, width // n), bench.random(width // n, k)
        for mode in (None, INVARIANT):
            option = {"batch_invariant": mode is not None}
            gather = functools.partial(fused.all_gather_matmul, shard, w, **option)
            bench.row("ag_gemm", "pyshmem", [m, width, k], gather, mode)
            scatter = functools.partial(fused.matmul_reduce_scatter, x, down, **option)
            bench.row("gemm_rs", "pyshmem", [m, k, width], scatter, mode)
            reduce = functools.partial(fused.matmul_all_reduce, x, down, **option)
            bench.row("gemm_ar", "pyshmem", [m, k, width], reduce, mode)
    _grouped_rows(bench)
    for count, keys in SEQUENCES if bench.on_gpu else ((2, 64),):
        heads, groups, width = (32, 8, 128) if bench.on_gpu else (4, 2, 16)
        q = bench.random(count, heads, width)
        kv = [bench.random(count, keys // n, groups, width) for _ in range(2)]
        for mode in (None, INVARIANT):
            call = functools.partial(fused.flash_decode, q, *kv, batch_invariant=mode is not None)
            bench.row("flash_decode", "pyshmem", [count, keys, heads, width], call, mode)


def _grouped_rows(bench: Bench) -> None:
    tokens, hidden, inner, local = (4096, 4096, 2048, 8) if bench.on_gpu else (6, 32, 16, 2)
    n_experts, w = local * bench.job.n_pes, bench.random(local, hidden, inner)
    ids = torch.randn(tokens, n_experts, device=bench.device).topk(2).indices
    rows, handle = fused.expert_dispatch(bench.random(tokens, hidden), ids, n_experts)
    for mode in (None, INVARIANT):
        call = functools.partial(
            fused.group_matmul, rows, w, handle, batch_invariant=mode is not None
        )
        bench.row("group_matmul", "pyshmem", [tokens, hidden, inner], call, mode)


PARTS = {
    "norm": norm, "gemm": gemm, "experts": experts, "decode": decode, "invariant": invariant,
    "norm_formats": norm_formats, "dispatch_formats": dispatch_formats,
}  # fmt: skip


# ---- output ----------------------------------------------------------------------------------------


def ratios(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """For each operation and shape: pyshmem's time over the best peer's, in graphs; losing ones too."""
    shapes = sorted({(row["op"], tuple(row["shape"])) for row in rows})
    for op, shape in shapes:
        same = [r for r in rows if r["op"] == op and tuple(r["shape"]) == shape and r["us_graph"]]
        ours = [r["us_graph"] for r in same if r["peer"] == "pyshmem" and not r["algorithm"]]
        peers = [
            r["us_graph"] for r in same if r["peer"] not in ("pyshmem", "gemm alone", "one GPU")
        ]
        if ours and peers:
            yield {"op": op, "shape": list(shape), "ratio": round(ours[0] / min(peers), 3)}


def draw(rows: list[dict[str, Any]], folder: Path) -> None:
    """The speed-up over the best peer, a picture an operation."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    by_op: dict[str, list[tuple[str, float]]] = {}
    for row in ratios(rows):
        by_op.setdefault(row["op"], []).append(
            (" x ".join(map(str, row["shape"])), 1 / row["ratio"])
        )
    folder.mkdir(parents=True, exist_ok=True)
    for op, bars in by_op.items():
        figure, axes = pyplot.subplots(figsize=(8, 0.4 * len(bars) + 1.5))
        axes.barh([name for name, _ in bars], [value for _, value in bars])
        axes.axvline(1, color="black", linewidth=1)
        axes.set_xlabel(f"{op}: times as fast as the best peer, in a CUDA graph")
        figure.tight_layout()
        figure.savefig(folder / f"fused_{op}.png", dpi=120)
        pyplot.close(figure)


@click.command()
@some_of("--only", PARTS, "Parts")
@click.option(
    "--tokens", default="", help="Of norms and formats, with commas between; all by default."
)
@click.option("--plot", type=click.Path(path_type=Path), help="Folder for pictures.")
@click.option(
    "--timeline", type=click.Path(path_type=Path), help="Folder for timelines; no figures."
)
def main(only: tuple[str, ...], tokens: str, plot: Path | None, timeline: Path | None) -> None:
    """Run the parts on all PEs."""
    with pyshmem.init(device_heap_size="8G" if gpu_count() else "64M") as job:
        if job.device == "cuda":
            symmetric.init_process_group("nccl")
        bench = Bench(job, tuple(map(int, filter(None, tokens.split(",")))))
        if timeline:
            timelines(bench, timeline)
            return
        for name in only:
            PARTS[name](bench)
        if job.my_pe == 0:
            for row in ratios(bench.rows):
                print(json.dumps(row), flush=True)
            if plot:
                draw(bench.rows, plot)


if __name__ == "__main__":
    main()
