# SPDX-License-Identifier: BSD-3-Clause
"""MXFP8 and NVFP4: formats.quantize, norms and dispatch, bit for bit as the model in NumPy.

With an argument that is one part alone: so many rows a format, ``norms``, ``dispatches``
or ``graphs``.
"""

from __future__ import annotations

import itertools
import os
import sys
import warnings
from typing import Any

import formats_model as model
import numpy as np
import pytest
import torch

import pyshmem
import pyshmem.fused as fused
from pyshmem.fused import formats
from pyshmem.fused.formats import api
from pyshmem.fused.formats.table import BlockFormat

HERE = torch.device("cpu")
FAR = os.environ.get("PYSHMEM_P2P") == "0"
ALGORITHMS = ("one_shot", *(() if FAR else ("pull", "push")), "two_shot")
DTYPES = (torch.bfloat16, torch.float32, torch.float16)
KINDS = ("mxfp8", "nvfp4")
new_scales = BlockFormat.new_scales


def used_before(format_: BlockFormat, x: torch.Tensor) -> torch.Tensor:
    """Scales in memory that had others: what pads them is made 0 with them."""
    found = new_scales(format_, x)
    found.view(torch.uint8).fill_(0x55)
    return found


BlockFormat.new_scales = used_before  # type: ignore[method-assign]


def drawn(count: int, hidden: int, dtype: torch.dtype, seed: int) -> torch.Tensor:
    """Rows of all sizes, and the edges: ties, signs of 0, zeros, infinities, NaN, subnormals."""
    draw = np.random.default_rng(seed)
    sizes = np.exp2(draw.uniform(-20, 12, (count, 1)))
    x = draw.standard_normal((count, hidden)) * sizes
    x[::5] = (
        draw.integers(-24, 25, x[::5].shape) / 4 * np.exp2(draw.integers(-9, 9, (len(x[::5]), 1)))
    )
    with np.errstate(over="ignore"):
        x = x.astype(np.float32)
    x[1::17] = 0
    x[2::17] = -0.0
    places = draw.integers(0, hidden, count)
    x[np.arange(count)[3::97], places[3::97]] = np.nan
    x[np.arange(count)[4::97], places[4::97]] = -np.inf
    x[np.arange(count)[5::97], places[5::97]] = np.inf
    x[6::97] *= np.float32(2.0**-135)
    x[7::97] = np.float32(3e38)
    x[8::97] = np.finfo(np.float32).smallest_subnormal * draw.integers(-5, 6, x[8::97].shape)
    return torch.from_numpy(x).to(dtype)


def raw(tensor: torch.Tensor) -> np.ndarray:
    found: np.ndarray = tensor.view(torch.uint8).cpu().numpy()
    return found


def compare(
    made: tuple[Any, Any], x: torch.Tensor, name: str, unit: float = 1.0, what: Any = None
) -> None:
    """Elements and scales against the model of the rows ``x``."""
    kind = name.partition("_")[0]
    wanted, scales = model.bits(x.float().cpu().numpy().reshape(-1, x.shape[-1]), kind, unit)
    if name.endswith("swizzled"):
        scales = model.swizzled(scales)
    got = raw(made[0]).reshape(wanted.shape), raw(made[1]).reshape(scales.shape)
    for one, right in zip(got, (wanted, scales), strict=True):
        places = np.argwhere(one != right)
        assert not len(places), (name, what, len(places), places[:3], one[one != right][:3])


def rows(count: int, sizes: tuple[int, ...]) -> None:
    """Against the model; PEs have different rows."""
    for kind, dtype, hidden in itertools.product(KINDS, DTYPES, sizes):
        x = drawn(count, hidden, dtype, seed=hidden + 1000 * me).to(HERE)
        compare(formats.quantize(x, kind), x, kind, what=(dtype, hidden))
        if kind == "nvfp4":
            for unit in (0.0078125, 0.3, 3.1e-5):
                made = formats.quantize(x, kind, global_scale=unit)
                compare(made, x, kind, unit, (dtype, hidden, unit))


def scales_and_layouts() -> None:
    x = drawn(130, 80, torch.float32, 9).view(2, 65, 80).to(HERE)
    for kind in KINDS:
        elements, scales = formats.quantize(x, kind)
        tiled = formats.quantize(x, f"{kind}_swizzled")
        compare(tiled, x, f"{kind}_swizzled")
        assert tiled[1].dtype == scales.dtype
        assert torch.equal(elements.view(torch.uint8), tiled[0].view(torch.uint8))
        flat = scales.view(130, -1)
        assert np.array_equal(raw(formats.swizzle(flat)), raw(tiled[1]))
        assert np.array_equal(raw(formats.unswizzle(tiled[1], 130, flat.shape[1])), raw(flat))
        values = formats.dequantize(elements, scales, kind)
        again = formats.dequantize(*tiled, f"{kind}_swizzled")
        torch.testing.assert_close(values, again, rtol=0, atol=0, equal_nan=True)
    x = torch.tensor([[6.0, -3, 0.5, 0, 1.5, 2, 4, -0.5] * 4], device=HERE)
    for kind in KINDS:  # numbers that both have
        assert torch.equal(formats.dequantize(*formats.quantize(x, kind), kind), x)
    unit = torch.tensor([0.25], device=HERE)
    made = formats.quantize(x, "nvfp4", global_scale=unit)
    values = formats.dequantize(*made, "nvfp4", global_scale=unit, dtype=torch.bfloat16)
    assert values.dtype == torch.bfloat16
    assert torch.equal(values.float(), x)
    none = formats.quantize(x[:0], "mxfp8_swizzled")
    assert none[0].shape == (0, 32)
    assert none[1].shape == (0, 4)
    assert formats.dequantize(*none, "mxfp8_swizzled").shape == (0, 32)
    number = formats.quantize(x, "nvfp4", global_scale=np.float32(0.25))
    assert np.array_equal(raw(number[0]), raw(made[0]))
    if HERE.type == "cpu":
        made = formats.quantize(x.numpy(), "nvfp4")
        assert all(one.dtype == np.uint8 for one in made)
        assert np.array_equal(formats.dequantize(*made, "nvfp4"), x.numpy())


def refusals() -> None:
    x = torch.ones(2, 16, device=HERE)
    good = formats.quantize(x, "mxfp8")
    wrong = good[0], good[1].view(torch.float8_e4m3fn)
    for kind, message, call in (
        (ValueError, "quantize is 'row'", lambda: formats.quantize(x, "row")),
        (TypeError, "x is torch.int32", lambda: formats.quantize(x.int(), "mxfp8")),
        (ValueError, "is even", lambda: formats.quantize(x[:, :15].contiguous(), "nvfp4")),
        (ValueError, "is a part of NVFP4", lambda: formats.quantize(x, "mxfp8", global_scale=2.0)),
        (ValueError, "from 2", lambda: formats.quantize(x, "nvfp4", global_scale=0.0)),
        (TypeError, "is str", lambda: formats.quantize(x, "nvfp4", global_scale="1")),
        (ValueError, "is one number", lambda: formats.quantize(x, "nvfp4", global_scale=x)),
        (ValueError, "scales have size", lambda: formats.dequantize(x.byte(), x.byte(), "mxfp8")),
        (TypeError, "one byte each", lambda: formats.swizzle(x)),
        (ValueError, r"size \(\); rows", lambda: formats.swizzle(x.byte()[0, 0])),
        (ValueError, "not contiguous", lambda: formats.unswizzle(x.byte().t(), 2, 16)),
        (ValueError, "-1 rows of 16", lambda: formats.unswizzle(x.byte(), -1, 16)),
        (ValueError, r"quantize is \['mxfp8'\]", lambda: formats.quantize(x, ["mxfp8"])),
        (
            RuntimeError,
            "no derivative",
            lambda: formats.quantize(x.clone().requires_grad_(), "mxfp8"),
        ),
        (
            TypeError,
            "dtype is float32",
            lambda: formats.dequantize(*good, "mxfp8", dtype="float32"),
        ),
        (
            ValueError,
            "rows are not empty",
            lambda: formats.dequantize(good[0][0, 0], good[1], "mxfp8"),
        ),
        (TypeError, "scales is torch.float8_e4m3fn", lambda: formats.dequantize(*wrong, "mxfp8")),
        (ValueError, "scales have 32 bytes", lambda: formats.unswizzle(x.byte(), 2, 16)),
        (ValueError, "a part of NVFP4", lambda: norm(x, x[0], quantize="row", global_scale=1.0)),
        (ValueError, "'nvfp4_swizzled' or None", lambda: norm(x, x[0], quantize="fp4")),
        (ValueError, "out has size", lambda: norm(x, x[0], quantize="nvfp4", out=x.byte())),
    ):
        with pytest.raises(kind, match=message):
            call()
    known, api.lacks_fp8 = api.lacks_fp8, lambda device: True
    with pytest.raises(pyshmem.UnsupportedError, match="has no FP8"):
        formats.quantize(x, "mxfp8")
    api.lacks_fp8 = known


norm = fused.all_reduce_rmsnorm


def norms(every: int) -> None:
    """Blocks of what a call without gives: squares of these rows add up exactly, in all orders.

    So all algorithms give the same bits, too.
    """
    # One row has a program for each third of it, of which the last one's tile has room to spare.
    many = 60 if HERE.type == "cuda" else 4  # rows enough for a program each
    sizes = (5, 64), (3, 200), (2, 8), (1, 4104), (many, 4104)
    cases = itertools.product(KINDS, DTYPES, ALGORITHMS, sizes)
    kept: dict[Any, Any] = {}
    for number, (kind, dtype, algorithm, size) in enumerate(cases):
        if (number + number // every) % every:
            continue
        whole = np.random.default_rng(7).integers(-3, 4, (n, *size))
        x = torch.from_numpy(whole[me]).to(HERE, dtype)
        draw = np.random.default_rng(8)
        weight, bias = (
            torch.from_numpy(draw.standard_normal(size[1])).to(HERE, dtype) for _ in "wb"
        )
        bias = bias if number % 2 else None
        name = f"{kind}_swizzled" if number % 4 > 1 else kind
        unit = torch.tensor([0.3], device=HERE) if kind == "nvfp4" and number % 3 else None
        plain = norm(x, weight, bias=bias, algorithm=algorithm)
        made = norm(
            x, weight, bias=bias, quantize=name, global_scale=unit, algorithm=algorithm
        )  # fmt: skip
        what = (dtype, algorithm, size, unit)
        compare((made.output, made.scales), plain.output, name, 1.0 if unit is None else 0.3, what)
        assert torch.equal(made.residual, plain.residual)
        first = kept.setdefault((kind, dtype, size, name, bias is None, unit is None), made)
        assert np.array_equal(raw(first.output), raw(made.output)), what
    x, weight = torch.ones(3, 64, device=HERE), torch.ones(64, device=HERE)
    into = torch.zeros(3, 32, dtype=torch.uint8, device=HERE)
    given = norm(x, weight, quantize="nvfp4", out=into, global_scale=0.5)
    assert given.output is into
    asked = torch.ops.pyshmem.all_reduce_rmsnorm(
        x, weight, quantize="nvfp4", global_scale=torch.tensor([0.5], device=HERE)
    )
    assert np.array_equal(raw(asked[0]), raw(into))
    assert np.array_equal(raw(asked[2]), raw(given.scales))


def operators() -> None:
    """What compilers see has the sizes and dtypes of what comes."""
    x, weight = torch.ones(3, 72, device=HERE), torch.ones(72, device=HERE)
    for name in ("mxfp8", "nvfp4", "mxfp8_swizzled", "nvfp4_swizzled"):
        real = torch.ops.pyshmem.all_reduce_rmsnorm(x, weight, quantize=name)
        with torch._subclasses.FakeTensorMode() as mode:
            fakes = mode.from_tensor(x), mode.from_tensor(weight)
            seen = torch.ops.pyshmem.all_reduce_rmsnorm(*fakes, quantize=name)
        for one, other in zip(real, seen, strict=True):
            assert (one.shape, one.dtype, one.stride()) == (
                other.shape,
                other.dtype,
                other.stride(),
            )


def given_tokens(pe: int, many: int, hidden: int, experts: int) -> tuple[torch.Tensor, ...]:
    """A member's tokens and their experts: -1 for none, all to the first one where ``many`` is 3."""
    x = drawn(many, hidden, torch.bfloat16, seed=50 + pe)
    ids = np.random.default_rng(60 + pe).integers(-1, experts, (many, 2))
    return x, torch.from_numpy(ids * (many != 3))


def arrived(most: int, every: Any, experts: int, decode: bool) -> list[tuple[int, int, int]]:
    """Row, member and number of each token that comes."""
    mine = range(me * experts, (me + 1) * experts)
    found = []
    for pe, (_, ids) in enumerate(every):
        for number, row in enumerate(ids.tolist()):
            if any(one in mine for one in row):
                found.append((pe * most + number if decode else len(found), pe, number))
    return found


def dispatches() -> None:
    """Tokens that come have the bits of the model, in both modes; no tokens, all to one expert, none."""
    for kind, many, decode in itertools.product(KINDS, (0, 3, 7), (True, False)):
        counts = [many if pe == 0 else 5 for pe in range(n)]
        every = [given_tokens(pe, count, 96, 2 * n) for pe, count in enumerate(counts)]
        x, ids = every[me]
        unit = torch.tensor([0.3], device=HERE) if kind == "nvfp4" and many else None
        options = {"quantize": kind, "global_scale": unit, "max_tokens": 7 if decode else None}
        tokens, handle = fused.expert_dispatch(x.to(HERE), ids.to(HERE), 2 * n, **options)
        found = arrived(7, every, 2, decode)
        assert decode or tokens.shape[0] == len(found)
        got, scales = raw(tokens), raw(handle.scales)
        for row, pe, number in found:
            one = every[pe][0][number].float().numpy()[None]
            wanted = model.bits(one, kind, 1.0 if unit is None else 0.3)
            what = kind, many, decode, row, pe, number
            assert np.array_equal(got[row], wanted[0][0]), what
            assert np.array_equal(scales[row], wanted[1][0]), what
        pairs = int(handle.offsets[-1])
        values = formats.dequantize(tokens, handle.scales, kind, global_scale=unit)
        looked_up = handle.by_expert(tokens)[:pairs]
        wanted = values.index_select(0, handle.rows)[:pairs]
        torch.testing.assert_close(looked_up, wanted, rtol=0, atol=0, equal_nan=True)
        weights = torch.ones(2, 96, 8, device=HERE)
        with pytest.raises(pyshmem.UnsupportedError, match="by_expert"):
            fused.group_matmul(tokens, weights, handle)
    x, ids = torch.ones(3, 48, device=HERE), torch.zeros(3, 2, dtype=torch.int64, device=HERE)
    for kind, message, options in (
        (ValueError, "no multiple of 32, as MXFP8", {"quantize": "mxfp8"}),
        (ValueError, "quantize is 'mxfp8_swizzled'", {"quantize": "mxfp8_swizzled"}),
        (ValueError, "is a part of NVFP4", {"quantize": None, "global_scale": 1.0}),
        (ValueError, "made NVFP4 by", {"quantize": "nvfp4", "algorithm": "copy_engine"}),
    ):
        with pytest.raises(kind, match=message):
            fused.expert_dispatch(x, ids, n, **options)
    with pytest.raises(RuntimeError, match="NVFP4"):
        fused.expert_dispatch(x.clone().requires_grad_(), ids, n, quantize="nvfp4")
    if n == 1:
        asked = torch.ops.pyshmem.expert_dispatch(x, ids, 1, "nvfp4", "decode", 3)
        with torch._subclasses.FakeTensorMode() as mode:
            fakes = mode.from_tensor(x), mode.from_tensor(ids)
            seen = torch.ops.pyshmem.expert_dispatch(*fakes, 1, "nvfp4", "decode", 3)
        for one, other in zip(asked, seen, strict=True):
            assert (one.shape, one.dtype) == (other.shape, other.dtype)


def dispatch_graphs() -> None:
    """Decoding in a CUDA graph, with other tokens at each replay."""

    def chosen(pe: int) -> torch.Tensor:
        return torch.randint(0, 2 * n, (9, 3), generator=torch.Generator().manual_seed(pe))

    stream = torch.cuda.Stream()
    for kind in KINDS:
        x = torch.ones(9, 7168, dtype=torch.bfloat16, device=HERE)
        ids = chosen(me).to(HERE)
        options = {"quantize": kind, "max_tokens": 9}
        with torch.cuda.stream(stream):
            fused.expert_dispatch(x, ids, 2 * n, **options)
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            tokens, handle = fused.expert_dispatch(x, ids, 2 * n, **options)
        for turn in range(3):
            rows_of = [drawn(9, 7168, torch.bfloat16, seed=100 * turn + pe) for pe in range(n)]
            every = [(rows_of[pe], chosen(pe)) for pe in range(n)]
            with torch.cuda.stream(stream):
                x.copy_(rows_of[me])
                graph.replay()
            stream.synchronize()
            got, scales = raw(tokens), raw(handle.scales)
            for row, pe, number in arrived(9, every, 2, True):
                wanted = model.bits(rows_of[pe][number].float().numpy()[None], kind)
                assert np.array_equal(got[row], wanted[0][0]), (kind, turn, row)
                assert np.array_equal(scales[row], wanted[1][0]), (kind, turn, row)


def graphs() -> None:
    """In a CUDA graph, with a global scale that changes between replays."""
    weight, stream = torch.randn(4096, device=HERE).bfloat16(), torch.cuda.Stream()
    cases = list(itertools.product(ALGORITHMS, ("mxfp8_swizzled", "nvfp4"), (128,)))
    cases += [("one_shot", name, 16) for name in ("mxfp8", "nvfp4")]  # three programs a row
    for algorithm, name, tokens in cases:
        x = torch.ones(tokens, 4096, dtype=torch.bfloat16, device=HERE)
        unit = torch.ones(1, device=HERE) if name == "nvfp4" else None
        with torch.cuda.stream(stream):
            norm(x, weight, quantize=name, global_scale=unit, algorithm=algorithm)
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            made = norm(x, weight, quantize=name, global_scale=unit, algorithm=algorithm)
        for turn in range(3):
            draw = torch.Generator().manual_seed(10 * turn + me)
            with torch.cuda.stream(stream):
                x.copy_(torch.randint(-3, 4, x.shape, generator=draw))
                if unit is not None:
                    unit.fill_(0.5 + turn)
                graph.replay()
                plain = norm(x, weight, algorithm=algorithm)
            stream.synchronize()
            scale = 1.0 if unit is None else 0.5 + turn
            compare((made.output, made.scales), plain.output, name, scale, (algorithm, turn))


torch.set_num_threads(1)
warnings.simplefilter("ignore", RuntimeWarning)  # of NumPy, which kernels of the interpreter are
with pyshmem.init() as job:
    me, n = job.my_pe, job.n_pes
    if job.device == "cuda":
        HERE = torch.device("cuda", job.gpu)
        torch.cuda.set_device(HERE)
    part = (*sys.argv[1:], "all")[0]
    if part.isdigit():
        rows(int(part), (80,))
    if part == "all":
        rows(200 if n == 1 else 20, (80, 8))
    if part == "all" and n == 1:
        scales_and_layouts()
        refusals()
        operators()
    if part in ("all", "norms"):
        norms(4)  # each dtype, algorithm and format comes
    if part in ("all", "dispatches"):
        dispatches()
    if part == "graphs" or (part == "all" and job.device == "cuda"):
        graphs()
        dispatch_graphs()
print("ok", flush=True)
