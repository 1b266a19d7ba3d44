# SPDX-License-Identifier: BSD-3-Clause
"""pyshmem.fused.all_reduce_rmsnorm in the simulator: results, bits, derivatives, refusals."""

from __future__ import annotations

import itertools
import os
import sys

import numpy as np
import pytest
import torch

import pyshmem
import pyshmem.fused as fused
import pyshmem.interop.torch as symmetric
from pyshmem.fused.all_reduce_norm import api as norm_of
from pyshmem.fused.all_reduce_norm import launch as norm_launch

FAR = os.environ.get("PYSHMEM_P2P") == "0"
ALGORITHMS = ("one_shot", *(() if FAR else ("pull", "push")), "two_shot")
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
HERE = torch.device("cpu")
#: Twice the rounding to nearest: the interpreter cuts bfloat16 off.
ROUNDING = {torch.float32: 2.0**-22, torch.bfloat16: 2.0**-7, torch.float16: 2.0**-10}


def refused(kind: type[Exception], message: str, call, *given, **options) -> None:
    with pytest.raises(kind) as told:
        call(*given, **options)
    assert message in str(told.value), told.value


def rows(seed: int, *size: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(seed)).to(HERE, dtype)


def reference(total, weight, bias, eps: float, norm: str):
    """float64, from the sum that is normalised."""
    total = total.double()
    if norm == "layer":
        total = total - total.mean(-1, keepdim=True)
    unit = total / (total.square().mean(-1, keepdim=True) + eps).sqrt() * weight.double()
    return unit if bias is None else unit + bias.double()


def spread(scales: torch.Tensor, size: torch.Size) -> torch.Tensor:
    return scales.double().repeat_interleave(128 if scales.shape[-1] > 1 else size[-1], -1)[
        ..., : size[-1]
    ]


def check(result, xs, weight, residual, bias, eps: float, norm: str, quantize) -> None:
    """Against float64: two roundings at most in a residual, one more in what is normalised."""
    rounding = ROUNDING[xs[0].dtype]
    exact = sum(x.double() for x in xs) + (0 if residual is None else residual.double())
    bound = exact.abs() * rounding + len(xs) * sum(x.abs() for x in xs).double() * 2.0**-22
    assert result.residual.dtype == xs[0].dtype
    assert ((result.residual.double() - exact).abs() <= bound).all()
    wanted = reference(result.residual, weight, bias, eps, norm)
    got = result.output.double()
    if quantize is None:
        assert result.scales is None
        assert result.output.dtype == xs[0].dtype
        bound = wanted.abs() * rounding + 2e-5
    else:
        assert result.output.dtype == torch.float8_e4m3fn
        scales = spread(result.scales, got.shape)
        got = got * scales
        bound = wanted.abs() * 2.0**-4 + scales * 2.0**-9 + 2e-5  # half an ulp; of a subnormal
        largest = result.output.float().abs().amax(-1)
        assert (largest >= 440).all(), "the largest of a group is FP8's largest"
    assert ((got - wanted).abs() <= bound).all(), (got - wanted).abs().max()


def same_on_all_pes(*tensors) -> None:
    for tensor in tensors:
        mine = torch.frombuffer(
            bytearray(tensor.contiguous().view(torch.uint8).cpu().numpy()), dtype=torch.uint8
        )
        box = symmetric.tensor(mine)
        every = symmetric.empty(n * mine.numel(), dtype=torch.uint8)
        torch.ops.pyshmem.all_gather_out(every, box)
        assert (every.view(n, -1) == mine).all()


def results() -> None:
    """Every algorithm, dtype and quantisation; the rest is varied along with them."""
    every = itertools.product(ALGORITHMS, DTYPES, (None, "row", "group"))
    kept: dict = {}
    for number, (algorithm, dtype, quantize) in enumerate(every):
        if n != 2 and (number + number // 3 + number // 9) % 3:
            continue  # each pair of them comes
        case = number % 9
        tokens, hidden = ((5, 200), (3, 72), (1, 264))[case % 3]
        norm, eps = ("rms", "layer")[case % 2], (1e-6, 1e-2)[case % 2]
        xs = [rows(10 * case + pe, tokens, hidden, dtype=dtype) for pe in range(n)]
        residual = rows(97, tokens, hidden, dtype=dtype) if case % 4 < 3 else None
        weight = rows(98, hidden, dtype=torch.float32 if case % 2 else dtype)
        bias = rows(99, hidden, dtype=dtype) if case % 3 == 1 else None
        result = fused.all_reduce_rmsnorm(
            xs[me], weight, residual=residual, bias=bias, eps=eps, norm=norm, quantize=quantize,
            algorithm=algorithm,
        )  # fmt: skip
        check(result, xs, weight, residual, bias, eps, norm, quantize)
        same_on_all_pes(*(one for one in result if one is not None))
        others = kept.setdefault((dtype, quantize), result)
        assert torch.equal(result.residual, others.residual), (
            algorithm
        )  # squares are added otherwise


def shapes(sizes) -> None:
    """No rows, fewer and more than PEs and programs, more dimensions; given and aliased results."""
    weight = rows(98, 16)
    for algorithm, size in itertools.product(ALGORITHMS, sizes):
        xs = [rows(pe, *size) for pe in range(n)]
        own, residual = xs[me].clone(), rows(97, *size)
        into, out = residual.clone(), own
        result = fused.all_reduce_rmsnorm(
            own, weight, residual=into, out=out, residual_out=into, algorithm=algorithm
        )
        assert result.output is out
        assert result.residual is into
        check(result, xs, weight, residual, None, 1e-6, "rms", None)
    if not FAR:  # more rows a program than its ring has slots
        for turn in range(4):
            xs = [rows(10 * turn + pe, 105, 16) for pe in range(n)]
            algorithm = ("pull", "push")[turn % 2]
            result = fused.all_reduce_rmsnorm(xs[me], weight, algorithm=algorithm)
            check(result, xs, weight, None, None, 1e-6, "rms", None)
    bytes_out = torch.empty(7, 16, dtype=torch.uint8, device=HERE)
    xs = [rows(pe, 7, 16) for pe in range(n)]
    first = fused.all_reduce_rmsnorm(xs[me], weight, quantize="row", out=bytes_out)
    second = fused.all_reduce_rmsnorm(xs[me], weight, quantize="row")
    assert torch.equal(first.output, second.output.view(torch.uint8))
    halves = rows(5, 7 * 16 + 1, dtype=torch.bfloat16)[1:].view(7, 16)  # no multiple of 4
    fourth = fused.all_reduce_rmsnorm(halves, weight, quantize="row", algorithm="one_shot")
    check(fourth, [halves] * n, weight, None, None, 1e-6, "rms", "row")
    fifth = fused.all_reduce_rmsnorm(halves, weight, algorithm="one_shot")
    check(fifth, [halves] * n, weight, None, None, 1e-6, "rms", None)
    box = symmetric.tensor(xs[me], heap="device")
    third = fused.all_reduce_rmsnorm(box, weight, quantize="group")
    check(third, xs, weight, None, None, 1e-6, "rms", "group")


def arrays() -> None:
    if HERE.type == "cuda":
        return  # NumPy's are not where kernels run
    xs = [rows(pe, 2, 8).numpy() for pe in range(n)]
    weight = np.arange(8, dtype=np.float32)
    result = fused.all_reduce_rmsnorm(xs[me], weight, residual=xs[0], quantize="row")
    assert all(isinstance(one, np.ndarray) for one in result)
    assert result.output.dtype == np.uint8
    assert np.allclose(result.residual, sum(xs) + xs[0], rtol=1e-5, atol=1e-6)


def teams() -> None:
    """Two teams at a time."""
    if n < 3:
        return
    team = pyshmem.TEAM_WORLD.split(min(me, 1))
    members = [0] if me == 0 else range(1, n)
    xs, weight = [rows(pe, 5, 24) for pe in range(n)], rows(98, 24)
    for algorithm in ALGORITHMS:
        result = fused.all_reduce_rmsnorm(xs[me], weight, team=team, algorithm=algorithm)
        check(result, [xs[pe] for pe in members], weight, None, None, 1e-6, "rms", None)


def derivatives() -> None:
    """Against the whole computed on one PE: the loss is the sum over the PEs."""
    ops = torch.ops.pyshmem
    mix = [rows(70 + pe, 2, 3, 16) for pe in range(n)]
    for norm in ("rms", "layer"):
        leaves = [
            [rows(50 + pe, 3, 16), rows(60, 16), rows(61, 3, 16), rows(62, 16)] for pe in range(n)
        ]
        for one in itertools.chain(*leaves):
            one.requires_grad_()
        total = sum(x for x, *_ in leaves)
        loss = 0
        for pe, (_, weight, residual, bias) in enumerate(leaves):
            added = total + residual
            if norm == "rms":
                normed = torch.nn.functional.rms_norm(added, (16,), weight, 1e-3) + bias
            else:
                normed = torch.nn.functional.layer_norm(added, (16,), weight, bias, 1e-3)
            loss = loss + (normed * mix[pe][0] + added * mix[pe][1]).sum()
        loss.backward()
        wanted = [one.grad for one in leaves[me]]

        def by_operator(x, weight, residual, bias, norm=norm):
            result = ops.all_reduce_rmsnorm(x, weight, residual, bias, 1e-3, norm)
            return (result[0] * mix[me][0] + result[1] * mix[me][1]).sum()

        def by_function(x, weight, residual, bias, norm=norm):
            result = fused.all_reduce_rmsnorm(
                x, weight, residual=residual, bias=bias, eps=1e-3, norm=norm
            )
            return (result.output * mix[me][0] + result.residual * mix[me][1]).sum()

        calls = [by_operator, by_function]
        if n == 2 and norm == "rms":  # loading the compiler takes longer than all the rest
            calls.append(torch.compile(by_function, fullgraph=True, backend="aot_eager"))
        for call in calls:
            mine = [one.detach().clone().requires_grad_() for one in leaves[me]]
            call(*mine).backward()
            for one, grad in zip(mine, wanted, strict=True):
                torch.testing.assert_close(one.grad, grad, rtol=1e-4, atol=1e-5)
    x, weight, residual, bias = leaves[me]
    if n == 1:  # each check calls an operator as often as it likes
        torch.library.opcheck(ops.all_reduce_rmsnorm.default, (x, weight, residual, bias))
        torch.library.opcheck(ops.sum_rows.default, (x,))
    quantised = ops.all_reduce_rmsnorm(x, weight, quantize="row")
    refused(NotImplementedError, "no derivative", quantised[1].sum().backward)
    refused(
        ValueError, "has no derivative", fused.all_reduce_rmsnorm, x, weight, out=rows(0, 3, 16)
    )


def refusals() -> None:
    call, x, weight = fused.all_reduce_rmsnorm, rows(0, 4, 16), rows(1, 16)
    refused(ValueError, "multiple of 8", call, rows(0, 4, 12), rows(1, 12))
    refused(ValueError, "multiple of 8", call, torch.zeros((), device=HERE), weight)
    refused(TypeError, "float64", call, x.double(), weight)
    refused(TypeError, "list", call, [1.0], weight)
    refused(ValueError, "weight is not contiguous", call, x, rows(1, 16, 2)[:, 0])
    refused(ValueError, "x is not contiguous", call, rows(0, 16, 16).t(), weight)
    refused(ValueError, "weight has size", call, x, rows(1, 8))
    refused(TypeError, "weight is NoneType", call, x, None)
    refused(ValueError, "bias has size", call, x, weight, bias=rows(1, 8))
    refused(ValueError, "residual has size", call, x, weight, residual=rows(0, 3, 16))
    refused(TypeError, "residual is", call, x, weight, residual=x.half())
    refused(ValueError, "out has size", call, x, weight, out=rows(0, 3, 16))
    refused(TypeError, "out is", call, x, weight, out=x.half())
    refused(TypeError, "out is", call, x, weight, out=x.clone(), quantize="row")
    refused(TypeError, "residual_out is", call, x, weight, residual_out=x.half())
    refused(ValueError, "norm is 'batch'", call, x, weight, norm="batch")
    refused(ValueError, "quantize is 'tensor'", call, x, weight, quantize="tensor")
    refused(ValueError, "no algorithm 'fast'", call, x, weight, algorithm="fast")
    refused(TypeError, "team is of type int, not a Team", call, x, weight, team=1)
    if FAR:
        refused(ValueError, "out of reach of loads", call, x, weight, algorithm="pull")
    known, norm_of._lacks_fp8 = norm_of._lacks_fp8, lambda device: True
    refused(pyshmem.UnsupportedError, "has no FP8", call, x, weight, quantize="row")
    norm_of._lacks_fp8 = known
    if n > 1:
        known, norm_launch._MOST_FOR_CHANNEL = norm_launch._MOST_FOR_CHANNEL, 1 << 20
        wide = torch.zeros(1, 1 << 17, device=HERE)
        refused(ValueError, "MiB of workspace", call, wide, wide[0], algorithm="one_shot")
        norm_launch._MOST_FOR_CHANNEL = known


def captured() -> None:
    """What a capture would have to allocate is refused; what is there is used."""
    from pyshmem.fused._shared import workspace

    weight = rows(98, 16)
    for algorithm in ALGORITHMS[: 3 if n > 1 else 0]:
        fused.all_reduce_rmsnorm(rows(me, 4, 16), weight, algorithm=algorithm)
        known, workspace.capturing = workspace.capturing, lambda: True
        try:
            fused.all_reduce_rmsnorm(rows(me, 4, 16), weight, algorithm=algorithm)
            wide = rows(me, 64, 2048), rows(98, 2048)
            refused(
                RuntimeError,
                "before the capture",
                fused.all_reduce_rmsnorm,
                *wide,
                algorithm=algorithm,
            )
        finally:
            workspace.capturing = known


def graphs() -> None:
    """Calls in a CUDA graph, replayed with other data."""
    weight, stream = rows(98, 1024), torch.cuda.Stream()
    for algorithm, quantize in itertools.product(ALGORITHMS, (None, "group")):
        x, residual = rows(me, 9, 1024), rows(97, 9, 1024)
        with torch.cuda.stream(stream):
            fused.all_reduce_rmsnorm(
                x, weight, residual=residual, quantize=quantize, algorithm=algorithm
            )
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            result = fused.all_reduce_rmsnorm(
                x, weight, residual=residual, quantize=quantize, algorithm=algorithm
            )
        for turn in range(3):
            xs = [rows(100 * turn + pe, 9, 1024) for pe in range(n)]
            with torch.cuda.stream(stream):
                x.copy_(xs[me])
                graph.replay()
            stream.synchronize()
            check(result, xs, weight, residual, None, 1e-6, "rms", quantize)
            same_on_all_pes(*(one for one in result if one is not None))


def disagreements() -> None:
    """In checking mode."""
    weight = rows(98, 16)
    refused(
        pyshmem.MismatchError, "all_reduce_rmsnorm", fused.all_reduce_rmsnorm,
        rows(0, 4 + (me == 1), 16), weight,
    )  # fmt: skip
    kind = torch.float16 if me == 1 else torch.float32
    refused(
        pyshmem.MismatchError, "all_reduce_rmsnorm", fused.all_reduce_rmsnorm,
        rows(0, 4, 16, dtype=kind), weight,
    )  # fmt: skip


torch.set_num_threads(1)
with pyshmem.init() as job:
    me, n = job.my_pe, job.n_pes
    if job.device == "cuda":
        HERE = torch.device("cuda", job.gpu)
        torch.cuda.set_device(HERE)
    if os.environ.get("PYSHMEM_CHECK") == "1":
        disagreements()
    refusals()
    small = bool(sys.argv[1:])
    shapes([(5, 16)] if small else [(0, 16), (1, 16), (7, 16), (2, 3, 16)])
    if not small and job.device == "cuda":
        graphs()
    if not small:
        results()
        arrays()
        teams()
        derivatives()
        captured()
print("ok", flush=True)
