# SPDX-License-Identifier: BSD-3-Clause
"""Products that communicate: every algorithm, dtype and operation, derivatives, graphs, errors."""

from __future__ import annotations

import itertools
import sys
import types
from unittest import mock

import pytest
import torch

import pyshmem
import pyshmem.fused as fused
import pyshmem.interop.torch as tensors
from pyshmem.fused.matmul import arguments as matmul_arguments
from pyshmem.fused.matmul import copy_engine as matmul_engine
from pyshmem.fused.matmul import copy_engine_of_two as pair
from pyshmem.fused.matmul import dispatch as matmul_run
from pyshmem.fused.matmul import local as matmul_local
from pyshmem.fused.matmul import persistent as matmul_tiles

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
FP8 = torch.float8_e4m3fn
ALGORITHMS = ("copy_engine", "persistent", "unfused")
#: What rounding of results and partial results costs; Triton's interpreter cuts off.
NEAR = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 4e-2}
#: Tensor cores add up products of FP8 to some 13 bits.
NEAR_FP8 = {dtype: max(near, 2e-3 if DEVICE == "cuda" else 0) for dtype, near in NEAR.items()}
ACTIVATIONS = {
    None: lambda z: z, "relu": torch.relu, "gelu": torch.nn.functional.gelu,
    "silu": torch.nn.functional.silu,
}  # fmt: skip


def given(seed: int, *size: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    made = torch.randn(size, generator=torch.Generator().manual_seed(seed))
    return made.to(DEVICE, dtype)


def weight(seed: int, k: int, n: int, dtype: torch.dtype, transposed: bool) -> torch.Tensor:
    return given(seed, n, k, dtype=dtype).t() if transposed else given(seed, k, n, dtype=dtype)


def close(got: torch.Tensor, expected: torch.Tensor, dtype: torch.dtype, table=NEAR) -> None:
    assert got.dtype == dtype, got.dtype
    near = table[dtype]
    torch.testing.assert_close(got.double(), expected, rtol=near, atol=near * 4)


def all_gather(me: int, n: int, algorithm: str, dtype: torch.dtype, number: int) -> None:
    k, columns, transposed = (40, 33, False) if number % 2 else (32, 19, True)
    rows = fused.share_of_rows(17 * n + 1, n) if number % 3 else (8,) * n
    shards = [given(r, rows[r], k, dtype=dtype) for r in range(n)]
    w = weight(50 + me, k, columns, dtype, transposed)
    bias = given(9, columns, dtype=dtype) if number % 4 else None
    activation = list(ACTIVATIONS)[number % 4]
    z = torch.cat(shards).double() @ w.double()
    expected = ACTIVATIONS[activation](z if bias is None else z + bias.double())
    options = {"bias": bias, "activation": activation, "algorithm": algorithm, "rows": rows}
    for _ in range(2 if number % 4 else 1):  # what words and slots are left like
        got, gathered = fused.all_gather_matmul(shards[me], w, gather_out=True, **options)
        close(got, expected, dtype)
        assert torch.equal(gathered, torch.cat(shards))
    if dtype == torch.float32:
        out = torch.empty_like(got)
        assert fused.all_gather_matmul(shards[me], w, out=out, **options) is out
        assert torch.equal(out, got)


def scatter(me: int, n: int, algorithm: str, dtype: torch.dtype, number: int) -> None:
    k, columns, transposed = (24, 33, False) if number % 2 else (20, 18, True)
    height = 16 * n + number % 3
    xs = [given(r, height, k, dtype=dtype) for r in range(n)]
    ws = [weight(50 + r, k, columns, dtype, transposed) for r in range(n)]
    bias = given(9, columns, dtype=dtype) if number % 4 else None
    activation = list(ACTIVATIONS)[number % 4]
    z = sum(x.double() @ w.double() for x, w in zip(xs, ws, strict=True))
    whole = ACTIVATIONS[activation](z if bias is None else z + bias.double())
    rows = fused.share_of_rows(height, n)
    mine = slice(sum(rows[:me]), sum(rows[: me + 1]))
    options = {"bias": bias, "activation": activation, "algorithm": algorithm}
    for _ in range(2 if number % 4 == 1 else 1):
        close(fused.matmul_reduce_scatter(xs[me], ws[me], **options), whole[mine], dtype)
        got = fused.matmul_all_reduce(xs[me], ws[me], **options)
        close(got, whole, dtype)
        same_everywhere(got)
    if dtype == torch.float32:
        near = tensors.empty(*got.shape, dtype=dtype, heap="device")  # where peers may store
        for out in (torch.empty_like(got), near, near):
            out.fill_(torch.nan)
            assert fused.matmul_all_reduce(xs[me], ws[me], out=out, **options) is out
            assert torch.equal(out, got)
        tensors.free(near)


def same_everywhere(tensor: torch.Tensor) -> None:
    """Bit by bit."""
    n = pyshmem.n_pes()
    bits = tensor.contiguous().view(torch.uint8).view(-1)
    found = torch.ops.pyshmem.matmul_gather_rows(bits.view(1, -1))
    assert all(torch.equal(found[r], bits) for r in range(n))


def eights(me: int, n: int, algorithm: str, by_row: bool) -> None:
    rows, k, columns = fused.share_of_rows(6 * n + 1, n), 32, 16
    height = sum(rows)
    xs = [given(r, rows[r], k).to(FP8) for r in range(n)]
    scales = [
        given(70 + r, rows[r]).abs() + 0.1 if by_row else torch.tensor(0.5 + r, device=DEVICE)
        for r in range(n)
    ]
    w = given(50, columns, k).to(FP8).t()
    scale_w = given(80, columns).abs() + 0.1 if by_row else 0.25
    taken = torch.nn.Parameter(scale_w) if by_row else scale_w  # which has no derivative
    z = torch.cat([x.double() * (s.view(-1, 1)) for x, s in zip(xs, scales, strict=True)])
    expected = z @ w.double() * scale_w
    kind = (torch.float32, torch.bfloat16, torch.float16)[ALGORITHMS.index(algorithm)]
    got = fused.all_gather_matmul(
        xs[me], w, scale_x=scales[me], scale_w=taken, out_dtype=kind, rows=rows, algorithm=algorithm,
        bias=torch.ones(columns, dtype=kind, device=DEVICE), activation="relu",
    )  # fmt: skip
    close(got, torch.relu(expected + 1), kind, NEAR_FP8)
    whole = [given(r, height, k).to(FP8) for r in range(n)]
    scale = given(90 + me, height).abs() if by_row else torch.tensor([2.0], device=DEVICE)
    partial = [
        x.double() * (given(90 + r, height).abs().double().view(-1, 1) if by_row else 2.0)
        for r, x in enumerate(whole)
    ]
    expected = sum(p @ w.double() * scale_w for p in partial)
    got = fused.matmul_all_reduce(
        whole[me], w, scale_x=scale, scale_w=taken, out_dtype=kind, algorithm=algorithm
    )
    near = NEAR_FP8[kind]
    torch.testing.assert_close(got.double(), expected, rtol=near, atol=20 * near)
    same_everywhere(got)


def scales_of_few_rows(me: int, n: int) -> None:
    """Members with no row and with one, of which one scale does not say whether it is the row's."""
    rows = [(0, 4, 1, 2)[(r + (n == 2)) % 4] for r in range(n)]
    w = given(50, 16, 32).to(FP8).t()
    for algorithm, by_row in itertools.product(("copy_engine", "unfused"), (False, True)):
        xs = [given(r, rows[r], 32).to(FP8) for r in range(n)]
        scales = [given(70 + r, rows[r] if by_row else 1).abs() + 0.1 + r for r in range(n)]
        z = torch.cat([x.double() * s.view(-1, 1) for x, s in zip(xs, scales, strict=True)])
        got = fused.all_gather_matmul(
            xs[me],
            w,
            scale_x=scales[me],
            scale_w=1.0,
            out_dtype=torch.float32,
            rows=rows,
            algorithm=algorithm,
        )
        close(got, z @ w.double(), torch.float32, NEAR_FP8)


def shapes(me: int, n: int) -> None:
    """Rows that are not shared evenly in any way, members without rows, no rows at all."""
    w = given(5, 8, 6)
    for algorithm in ("copy_engine", "unfused"):
        rows = [(3 * r + 1) % 5 for r in range(n)]
        shards = [given(r, rows[r], 8) for r in range(n)]
        got = fused.all_gather_matmul(shards[me], w, rows=rows, algorithm=algorithm)
        close(got, torch.cat(shards).double() @ w.double(), torch.float32)
        x = given(3, sum(rows), 8)
        got = fused.matmul_reduce_scatter(x, w, rows=rows, algorithm=algorithm)
        first = sum(rows[:me])
        close(got, n * (x.double() @ w.double())[first : first + rows[me]], torch.float32)
    for algorithm in ALGORITHMS:
        x = given(3, 1, 8)
        got = fused.matmul_all_reduce(x, w, algorithm=algorithm)
        close(got, n * (x.double() @ w.double()), torch.float32)
    assert fused.all_gather_matmul(torch.empty(0, 8, device=DEVICE), w).shape == (0, 6)
    if DEVICE == "cpu":
        by_numpy = fused.matmul_all_reduce(x.numpy(), w.numpy())
        close(torch.from_numpy(by_numpy), n * (x.double() @ w.double()), torch.float32)
    world = pyshmem.TEAM_WORLD.split_strided(0, 1, n)
    close(fused.matmul_all_reduce(x, w, team=world), n * (x.double() @ w.double()), torch.float32)
    world.destroy()


def refused(kind: type[Exception], message: str, call, *arguments, **options) -> None:
    with pytest.raises(kind) as told:
        call(*arguments, **options)
    assert message in str(told.value), told.value


def errors(me: int, n: int) -> None:
    x, w = given(1, 4, 8), given(2, 8, 6)
    call, reduce = fused.all_gather_matmul, fused.matmul_all_reduce
    refused(ValueError, "x (4, 8) has 8 columns, w (7, 6) has 7 rows", call, x, given(2, 7, 6))
    refused(TypeError, "x is torch.float32, w is torch.float16", call, x, w.half())
    refused(TypeError, "x_shard is torch.float64", call, x.double(), w.double())
    refused(ValueError, "x_shard is not contiguous", call, given(1, 8, 4).t(), w)
    refused(ValueError, "w is neither contiguous nor the transpose", call, x, given(2, 16, 6)[::2])
    refused(ValueError, "activation is 'tanh'", call, x, w, activation="tanh")
    refused(ValueError, "bias has 5 elements, w has 6", call, x, w, bias=given(3, 5))
    refused(TypeError, "bias is torch.float64", call, x, w, bias=given(3, 6).double())
    refused(ValueError, "out has size (4, 5)", reduce, x, w, out=given(1, 4, 5))
    refused(TypeError, "out_dtype is torch.float16", call, x, w, out_dtype=torch.float16)
    refused(TypeError, "scales are for float8_e4m3fn", call, x, w, scale_x=1.0)
    refused(TypeError, "scale_x is not given", call, x.to(FP8), w.t().contiguous().to(FP8).t())
    refused(ValueError, "rows says 5", call, x, w, rows=[5] * n)
    refused(ValueError, "are", reduce, x, w, rows=[3] + [0] * (n - 1))
    refused(ValueError, "rows is (1, 1, 1, 1, 1)", reduce, x, w, rows=[1] * 5)
    refused(ValueError, "no algorithm 'best'", call, x, w, algorithm="best")
    refused(TypeError, "x_shard is list", call, [1.0], w)
    refused(ValueError, "7 rows for 0 PEs", fused.share_of_rows, 7, 0)
    if n > 1:
        uneven = [4] * (n - 1) + [0]
        mine = given(1, uneven[me], 8)
        refused(ValueError, "share_of_rows", call, mine, w, rows=uneven, algorithm="persistent")
    with mock.patch("pyshmem.fused._shared.workspace.capturing", return_value=True):
        wide = given(1, 64, 1024)
        if n > 1:
            for algorithm in ALGORITHMS:
                refused(
                    RuntimeError, "have to grow", call, wide, given(2, 1024, 6), algorithm=algorithm
                )
    old = types.SimpleNamespace(is_cuda=True, device=0)
    with (
        mock.patch("torch.cuda.get_device_capability", return_value=(8, 0)),
        mock.patch("torch.cuda.get_device_name", return_value="A100"),
    ):
        refused(TypeError, "A100 does not multiply", matmul_arguments._check_fp8, old)
    leaf = given(1, 4, 8).requires_grad_()
    refused(ValueError, "out=", reduce, leaf, w, out=given(1, 4, 6))
    pyshmem.barrier_all()


def crossings() -> None:
    """The sizes by which the table chooses."""
    sizes = []
    for operation in ("all_gather_matmul", "matmul_reduce_scatter", "matmul_all_reduce"):
        given_rows = None if operation == "all_gather_matmul" else (4,) * pyshmem.n_pes()
        height = 4 if given_rows is None else sum(given_rows)
        p = matmul_arguments.problem(
            operation, given(1, height, 8), given(2, 8, 6), None, None, None, None, None, given_rows,
            pyshmem.TEAM_WORLD,
        )  # fmt: skip
        sizes.append(matmul_run.crossing(p))
    others = pyshmem.n_pes() - 1
    assert sizes == [others * 4 * 8 * 4, others * 4 * 6 * 4, 2 * others * 4 * 6 * 4], sizes


def pieces() -> None:
    """How rows are cut: fewer waves of tiles by lending rows, none where that does not help."""
    assert matmul_local._lent(8, 8, 19, 5, 4, 8) == 4
    assert matmul_local._lent(4096, 4096, 5504, 132, 128, 256) == 256
    assert matmul_local._lent(4096, 4096, 4096, 132, 128, 256) == 0
    assert matmul_local._chunks(4096, 4096, 132, 128, 256) == (0, 1024, 2048, 3072, 4096)
    assert matmul_local._chunks(1024, 8192, 132, 128, 256) == (0, 512, 1024)
    assert matmul_local._chunks(4096, 4096, 132, 128, 256, most=2) == (0, 2048, 4096)
    assert matmul_local._chunks(4096, 5120, 132, 128, 256) == (0, 1664, 3328, 4096)  # 2, 2, 1 waves
    assert matmul_local._chunks(64, 8192, 132, 128, 256) == (0, 64)
    assert matmul_tiles._bounds(100, 101, 16) == (32, [0, 32, 64, 96, 100])
    assert matmul_tiles._bounds(0, 1, 16) == (16, [0, 0])  # a word alone


def repeated(me: int, n: int) -> None:
    """A second call of a shape finds all but addresses as it was, in inference mode or outside it."""
    height, rows = 24 * n, [24 * n - 5, 5, *[0] * n][:n]
    w = given(5, 8, 16)
    expected = n * (given(1, height, 8).double() @ w.double())
    for options in ({}, {"rows": rows}, {"bias": given(7, 16), "activation": "relu"}):
        whole = torch.relu(expected + given(7, 16).double()) if "bias" in options else expected
        with torch.inference_mode():
            for _ in range(2):  # blocks may have grown, and then plans are made once more
                fused.matmul_all_reduce(given(1, height, 8), w, algorithm="copy_engine", **options)
        way = pair if n == 2 else matmul_engine
        with (
            mock.patch.object(way, "CopyChannel", side_effect=AssertionError("made again")),
            mock.patch.object(way, "current_stream", return_value=None) as asked,
        ):
            x = given(1, height, 8)  # elsewhere
            got = fused.matmul_all_reduce(x, w, algorithm="copy_engine", **options)
        assert asked.call_count == 1
        close(got, whole, torch.float32)
        same_everywhere(got)


def graphs(me: int, n: int) -> None:
    """On GPUs: captured and replayed, each time with what is in the tensors then."""
    x, w = given(me, 64, 128, dtype=torch.bfloat16), given(5, 128, 256, dtype=torch.bfloat16)
    calls = (fused.all_gather_matmul, fused.matmul_reduce_scatter, fused.matmul_all_reduce)
    for call, algorithm in itertools.product(calls, ALGORITHMS):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            call(x, w, algorithm=algorithm)
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            out = call(x, w, algorithm=algorithm)
        for _ in range(3):
            x.add_(1)
            graph.replay()
            expected = call(x, w, algorithm=algorithm)
            assert torch.equal(out, expected), (call, algorithm)


def derivatives(me: int, n: int) -> None:
    """Against all of it on one PE: the loss is the sum of the PEs' losses."""
    k, hidden, height = 8, 6, 2 * n + 1
    rows = list(fused.share_of_rows(height, n))

    def parameters() -> list[list[torch.Tensor]]:
        made = [
            [given(r, rows[r], k), given(20 + r, k, hidden), given(30 + r, hidden),
             given(40 + r, hidden, k), given(60 + r, k)]
            for r in range(n)
        ]  # fmt: skip
        return [[one.requires_grad_() for one in ones] for ones in made]

    theirs = parameters()
    whole = torch.cat([ones[0] for ones in theirs])
    hiddens = [torch.nn.functional.silu(whole @ ones[1] + ones[2]) for ones in theirs]
    summed = sum(h @ ones[3] for h, ones in zip(hiddens, theirs, strict=True))
    biases = torch.cat([ones[4].expand(rows[r], k) for r, ones in enumerate(theirs)])
    scattered, reduced = torch.relu(summed + biases), summed + biases
    loss = (scattered * 3).sum() + sum((reduced * (r + 1)).sum() for r in range(n))
    loss.backward()

    def layer(x, up, b, down, c):
        h = fused.all_gather_matmul(x, up, bias=b, activation="silu", rows=rows)
        y = fused.matmul_reduce_scatter(h, down, bias=c, activation="relu")
        return (y * 3).sum() + (fused.matmul_all_reduce(h, down, bias=c) * (me + 1)).sum()

    steps = [layer]
    if n == 2:  # Dynamo takes seconds
        steps.append(torch.compile(layer, fullgraph=True, backend="aot_eager"))
    for step in steps:
        mine = parameters()[me]
        step(*mine).backward()
        for number, (got, expected) in enumerate(zip(mine, theirs[me], strict=True)):
            torch.testing.assert_close(got.grad, expected.grad, msg=f"argument {number}")
    if n == 2:
        inference(me, n)
    x, w = given(1, 4, 8).requires_grad_(), given(2, 8, 6)
    out, _ = torch.ops.pyshmem.all_gather_matmul(x, w, None, "relu")
    refused(NotImplementedError, "no derivative", out.sum().backward)


def far(me: int, n: int) -> None:
    """Peers out of reach, in checking mode."""
    x, w = given(me, 4, 8), given(2, 8, 6)
    shards = torch.cat([given(r, 4, 8) for r in range(n)])
    close(fused.all_gather_matmul(x, w), shards.double() @ w.double(), torch.float32)
    expected = sum(given(r, 4, 8).double() @ w.double() for r in range(n))
    close(fused.matmul_all_reduce(x, w, algorithm="unfused"), expected, torch.float32)
    for algorithm in ("copy_engine", "persistent"):
        refused(ValueError, "reach", fused.matmul_all_reduce, x, w, algorithm=algorithm)
    wrong = pyshmem.MismatchError
    refused(wrong, "all_gather_matmul", fused.all_gather_matmul, given(1, 4 + me, 8), w)
    refused(wrong, "matmul_all_reduce", fused.matmul_all_reduce, x, given(2, 8, 6 + me))
    refused(
        wrong, "unfused", fused.matmul_reduce_scatter, x, w, algorithm=(None, "unfused")[me % 2]
    )


def inference(me: int, n: int) -> None:
    """Compiled, without derivatives."""
    x, up, down = given(me, 4, 32), given(20 + me, 32, 8), given(40 + me, 8, 32)
    eight, weight_8 = x.to(FP8), given(60, 16, 32).to(FP8).t()

    def layer(out):
        h, whole = fused.all_gather_matmul(x, up, activation="gelu", gather_out=True)
        y = fused.matmul_all_reduce(h, down, out=out)
        z = fused.matmul_reduce_scatter(h, down, activation="relu")
        return y, z, whole, fused.all_gather_matmul(eight, weight_8, scale_x=0.5, scale_w=2.0)

    expected = layer(given(1, 4 * n, 32))
    out = given(1, 4 * n, 32)
    got = torch.compile(layer, fullgraph=True, backend="aot_eager")(out)
    assert all(torch.equal(a, b) for a, b in zip(got, expected, strict=True))
    assert torch.equal(out, expected[0])


def main() -> None:
    with pyshmem.init() as job:
        if "far" in sys.argv:
            far(job.my_pe, job.n_pes)
            print("ok", flush=True)
            return
        me, n = job.my_pe, job.n_pes
        errors(me, n)
        cases = itertools.product(ALGORITHMS if n > 1 else ALGORITHMS[:1], NEAR)
        for number, (algorithm, dtype) in enumerate(cases):
            all_gather(me, n, algorithm, dtype, number)
            scatter(me, n, algorithm, dtype, number + 1)
        for algorithm, by_row in itertools.product(
            ALGORITHMS, (False, True)
        ):  # and a result's dtype
            eights(me, n, algorithm, by_row)
        scales_of_few_rows(me, n)
        shapes(me, n)
        crossings()
        pieces()
        if DEVICE == "cuda":
            graphs(me, n)
        elif n > 1:
            repeated(me, n)
        derivatives(me, n)
    print("ok", flush=True)


if __name__ == "__main__":
    main()
