# SPDX-License-Identifier: BSD-3-Clause
"""The bits of MXFP8 and NVFP4 beside torchao's, where that is installed; a JSON line a format.

    python -m pyshmem run -n 1 --device sim bench/torchao_formats.py     (or --device cuda)

Rows are normal numbers of many sizes and the edges that both have a rule for: no NaN, whose elements
torchao leaves to the cast, no infinities, and no scale of NVFP4 below 2**-6, which torchao raises to
that. Counted are bytes that differ.
"""

from __future__ import annotations

import json

import torch
from torchao.prototype.mx_formats.config import ScaleCalculationMode
from torchao.prototype.mx_formats.mx_tensor import to_mx
from torchao.prototype.mx_formats.nvfp4_tensor import nvfp4_quantize, per_tensor_amax_to_scale
from torchao.prototype.mx_formats.utils import to_blocked

import pyshmem
from pyshmem.fused import formats

ROWS, HIDDEN = 10_000, 256


def rows(device: torch.device, dtype: torch.dtype) -> torch.Tensor:
    """Rows of sizes from 2**-20 to 2**12, some of them multiples of 1 / 4, some of zeros."""
    draw = torch.Generator().manual_seed(1)
    sizes = torch.exp2(torch.randint(-20, 13, (ROWS, 1), generator=draw))
    x = torch.randn(ROWS, HIDDEN, generator=draw)
    x[::5] = torch.randint(-24, 25, x[::5].shape, generator=draw) / 4
    x *= sizes
    x[1::17] = 0
    return x.to(device, dtype)


def differing(one: torch.Tensor, other: torch.Tensor) -> int:
    """Bytes of two tensors that are not the same."""
    left, right = (tensor.contiguous().view(torch.uint8).view(-1) for tensor in (one, other))
    return int((left != right).sum())


def main() -> None:
    """A row of figures a format and dtype."""
    with pyshmem.init() as job:
        here = torch.device("cuda", job.gpu) if job.device == "cuda" else torch.device("cpu")
        for dtype in (torch.bfloat16, torch.float32):
            x = rows(here, dtype)
            elements, scales = formats.quantize(x, "mxfp8")
            theirs, data = to_mx(x, torch.float8_e4m3fn, 32, ScaleCalculationMode.FLOOR)
            _say("mxfp8", dtype, (elements, data), (scales, theirs))
            unit = per_tensor_amax_to_scale(x.abs().max())
            for name, given in (("nvfp4", None), ("nvfp4, global scale", unit)):
                ours = x if given is not None else x.clamp(-2000, 2000)
                kept = ours.float().unflatten(-1, (-1, 16)).abs().amax(-1)
                least = kept / 6 / (1.0 if given is None else float(given)) >= 2.0**-6
                elements, scales = formats.quantize(ours, "nvfp4", global_scale=given)
                theirs, data = nvfp4_quantize(ours, 16, given)
                there = least.unsqueeze(-1).expand(-1, -1, 8).reshape(ROWS, -1)
                pairs = elements.view(torch.uint8)[there], data.view(torch.uint8)[there]
                _say(
                    name,
                    dtype,
                    pairs,
                    (
                        scales.view(torch.uint8)[least],
                        theirs.view(torch.uint8).view(scales.shape)[least],
                    ),
                )
            plain = formats.quantize(x, "mxfp8")[1]
            tiles = formats.quantize(x, "mxfp8_swizzled")[1]
            _say(
                "mxfp8_swizzled",
                dtype,
                (tiles, to_blocked(plain.view(torch.uint8))),
                (tiles, formats.swizzle(plain)),
            )


def _say(
    name: str, dtype: torch.dtype, data: tuple[torch.Tensor, ...], scales: tuple[torch.Tensor, ...]
) -> None:
    row = {
        "format": name, "dtype": str(dtype), "elements": data[0].numel(), "differ": differing(*data),
        "scales": scales[0].numel(), "scales_differ": differing(*scales),
    }  # fmt: skip
    print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
