# SPDX-License-Identifier: BSD-3-Clause
"""all_gather_matmul and low_latency_all_gather of MXFP8 and NVFP4, against the model in NumPy."""

from __future__ import annotations

import itertools
import os
from typing import Any

import formats_model as model
import numpy as np
import pytest
import torch

import pyshmem
import pyshmem.fused as fused
from pyshmem.fused import formats
from pyshmem.fused.matmul import api

HERE = torch.device("cpu")
FAR = os.environ.get("PYSHMEM_P2P") == "0"
KINDS = ("mxfp8", "nvfp4")
ALGORITHMS = ("unfused", *(() if FAR else ("copy_engine",)), None)
ACTIVATIONS = {"relu": torch.relu, None: lambda value: value}


def numbers(seed: int, count: int, hidden: int) -> np.ndarray:
    """Integers and a 6 in each block, so that NVFP4 has the scale 1 and all sums are exact."""
    draw = np.random.default_rng(seed)
    x = draw.choice(np.array([-4, -3, -2, -1, 0, 1, 2, 3, 4], np.float32), (count, hidden))
    x[:, ::16] = 6
    return x


def blocks(x: np.ndarray, quantize: str, unit: Any = None) -> formats.BlockTensor:
    made = formats.quantize(torch.from_numpy(x).to(HERE), quantize, global_scale=unit)
    return formats.BlockTensor(*made, quantize, unit)


def products() -> None:
    """Exact: the same by all algorithms, also of rows that members have different numbers of."""
    cases = itertools.product(KINDS, ALGORITHMS, (False, True), (0, 1))
    for number, (kind, algorithm, uneven, tiled) in enumerate(cases):
        counts = [3 + 2 * pe if uneven else 5 for pe in range(n)]
        whole = [numbers(pe, count, 80) for pe, count in enumerate(counts)]
        weights, name = numbers(99 + me, 24, 80), f"{kind}{'_swizzled' * tiled}"
        other = kind if number % 2 else f"{kind}_swizzled"
        x, w = blocks(whole[me], name), blocks(weights, other)
        bias = torch.arange(24.0, device=HERE) - 12 if number % 3 else None
        activation = "relu" if number % 4 == 3 else None
        got = fused.all_gather_matmul(
            x, w, bias=bias, activation=activation, out_dtype=torch.float32, algorithm=algorithm,
            rows=counts if uneven else None,
        )  # fmt: skip
        wanted = torch.from_numpy(np.concatenate(whole) @ weights.T).to(HERE)
        wanted = ACTIVATIONS[activation](wanted if bias is None else wanted + bias)
        assert torch.equal(got, wanted), (kind, algorithm, uneven, tiled)


def against_the_model() -> None:
    """Rows of any size with a global scale, and results of 16 bits: to float32's sums."""
    for kind, algorithm in itertools.product(KINDS, ALGORITHMS[:-1]):
        draws = [np.random.default_rng(7 + pe).standard_normal((6, 96)) for pe in range(n + 1)]
        whole = [one.astype(np.float32) * 2.0 ** (3 * pe) for pe, one in enumerate(draws)]
        unit = 0.3 if kind == "nvfp4" else None
        x, w = blocks(whole[me], kind, unit), blocks(whole[n], kind, unit)
        sides = []
        for one in (np.concatenate(whole[:n]), whole[n]):
            given = kind, 1.0 if unit is None else unit
            sides.append(model.values(*model.bits(one, *given), *given))
        wanted = sides[0] @ sides[1].T
        for dtype, within in ((torch.float32, 1e-5), (torch.bfloat16, 8e-3), (None, 8e-3)):
            got = fused.all_gather_matmul(x, w, out_dtype=dtype, algorithm=algorithm)
            assert got.dtype == (dtype or torch.bfloat16)
            off = np.abs(got.cpu().double().numpy() - wanted).max(1) / np.abs(wanted).max(1)
            assert (off < within).all(), (kind, algorithm, dtype, off)
    into = torch.zeros(6 * n, 6, device=HERE)
    assert fused.all_gather_matmul(x, w, out_dtype=torch.float32, out=into) is into
    raw = formats.BlockTensor(*(one.view(torch.uint8) for one in x[:2]), *x[2:])
    assert torch.equal(fused.all_gather_matmul(raw, w, out_dtype=torch.float32), into)


def gathers() -> None:
    """What comes is what the whole gives, in both layouts, whether tiles are of one member or not."""
    for name, count in itertools.product(
        ("mxfp8", "nvfp4", "mxfp8_swizzled", "nvfp4_swizzled"), (3, 128)
    ):
        whole = np.concatenate([numbers(5 * pe, count, 48) for pe in range(n)])
        unit = torch.tensor([0.5], device=HERE) if name.startswith("nvfp4") else None
        got = fused.low_latency_all_gather(blocks(whole[me * count :][:count], name, unit))
        wanted = blocks(whole, name, unit)
        assert got.quantize == name
        assert got.global_scale is unit
        for one, other in zip(got[:2], wanted[:2], strict=True):
            assert one.dtype == other.dtype
            assert torch.equal(one.view(torch.uint8), other.view(torch.uint8)), (name, count)


def refusals() -> None:
    x, w = blocks(numbers(0, 4, 32), "mxfp8"), blocks(numbers(1, 6, 32), "mxfp8")
    four, call = blocks(numbers(1, 6, 32), "nvfp4"), fused.all_gather_matmul
    plain, gather = torch.ones(4, 32, device=HERE), fused.low_latency_all_gather
    long = blocks(numbers(1, 6, 64), "mxfp8")
    bias = torch.ones(6, device=HERE)
    for kind, message, given, options in (
        (TypeError, "x_shard is Tensor; it is a formats.BlockTensor", (plain, w), {}),
        (TypeError, "w is Tensor", (x, plain), {}),
        (ValueError, "they have one format", (x, four), {}),
        (ValueError, "w has quantize='row'", (x, w._replace(quantize="row")), {}),
        (ValueError, "x_shard.scales has size", (x._replace(quantize="mxfp8_swizzled"), w), {}),
        (ValueError, "is a part of NVFP4", (x._replace(global_scale=1.0), w), {}),
        (TypeError, "x_shard.elements is", (x._replace(elements=plain), w), {}),
        (ValueError, "6 rows of 64 elements", (x, long), {}),
        (TypeError, "a BlockTensor has its scales", (x, w), {"scale_x": 1.0}),
        (TypeError, "out_dtype is torch.int8", (x, w), {"out_dtype": torch.int8}),
        (ValueError, "activation is 'tanh'", (x, w), {"activation": "tanh"}),
        (TypeError, "bias is torch.float32", (x, w), {"bias": bias}),
        (ValueError, "bias has 4 elements", (x, w), {"bias": bias[:4].bfloat16()}),
        (NotImplementedError, "has no derivative", (x, w), {"bias": bias.bfloat16().requires_grad_()}),
        (ValueError, "without their scales", (x, w), {"gather_out": True}),
        (ValueError, "has no algorithm 'ring'" if n == 1 else "ring", (x, w), {"algorithm": "ring"}),
        (pyshmem.UnsupportedError, "batch_invariant=True", (x, w), {"batch_invariant": True}),
    ):  # fmt: skip
        with pytest.raises(kind, match=message):
            call(*given, **options)
    if n > 1:
        with pytest.raises(ValueError, match="blocks have scales"):
            call(x, w, algorithm="persistent")
    for message, given, options in (
        ("out= is a tensor", x, {"out": plain}),
        (
            "rows are along dimension 0",
            formats.BlockTensor(x.elements[0], x.scales[0], "mxfp8"),
            {},
        ),
    ):
        with pytest.raises(ValueError, match=message):
            gather(given, **options)
    known, api.torch.compiler.is_compiling = torch.compiler.is_compiling, lambda: True
    try:
        for function, given in ((call, (x, w)), (gather, (x,))):
            with pytest.raises(pyshmem.UnsupportedError, match="not traced"):
                function(*given)
    finally:
        torch.compiler.is_compiling = known


def in_graphs() -> None:
    """Other rows, and another global scale, at each replay."""
    unit, stream = torch.ones(1, device=HERE), torch.cuda.Stream()
    w = blocks(numbers(50, 64, 256), "nvfp4")
    for algorithm in ALGORITHMS:
        x = blocks(numbers(me, 128, 256), "nvfp4", unit)
        with torch.cuda.stream(stream):
            fused.all_gather_matmul(x, w, algorithm=algorithm)
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            got = fused.all_gather_matmul(x, w, out_dtype=torch.float32, algorithm=algorithm)
        for turn in range(3):
            whole = [numbers(10 * turn + pe, 128, 256) for pe in range(n)]
            with torch.cuda.stream(stream):
                fresh = blocks(whole[me], "nvfp4")
                x.elements.view(torch.uint8).copy_(fresh.elements.view(torch.uint8))
                x.scales.view(torch.uint8).copy_(fresh.scales.view(torch.uint8))
                unit.fill_(0.5 + turn)
                graph.replay()
            stream.synchronize()
            wanted = np.concatenate(whole) @ numbers(50, 64, 256).T * np.float32(0.5 + turn)
            assert np.array_equal(got.cpu().numpy(), wanted), (algorithm, turn)


torch.set_num_threads(1)
with pyshmem.init() as job:
    me, n = job.my_pe, job.n_pes
    if job.device == "cuda":
        HERE = torch.device("cuda", job.gpu)
        torch.cuda.set_device(HERE)
    products()
    against_the_model()
    gathers()
    refusals()
    if job.device == "cuda":
        in_graphs()
print("ok", flush=True)
