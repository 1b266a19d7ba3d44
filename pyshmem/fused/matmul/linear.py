# SPDX-License-Identifier: BSD-3-Clause
"""A linear layer of one PE alone, by fixed tiles: a row's bits do not depend on rows beside it."""

from __future__ import annotations

from typing import Any

import torch

from ..._torch.launches import Launch
from . import kernels
from .arguments import ACTIVATIONS, WIDE
from .tiles import linear_config

_launches: dict[Any, Launch] = {}
_MOST_LAUNCHES = 4096


def _launch(rows: int, n: int, k: int, x: torch.Tensor, bias: bool, activation: str) -> Launch:
    tile, options = linear_config(x, n, k)
    programs = -(-rows // tile.BM) * -(-n // tile.BN)
    if x.is_cuda:
        programs = min(
            programs, 2 * torch.cuda.get_device_properties(x.device).multi_processor_count
        )
    end = kernels.End(False, 0, 0, bias, activation)
    constants = {"TILE": tile, "END": end, **options}
    return Launch(kernels.product_kernel, min(programs, 512), (n, k), constants)


def linear(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None,
    activation: str | None = None,
) -> torch.Tensor:  # fmt: skip
    """X (..., k) times the transpose of weight (n, k), as torch's linear layers; a new tensor.

    Raises: TypeError (dtypes), ValueError (extents, activation).
    """
    if x.dtype not in WIDE or weight.dtype != x.dtype:
        raise TypeError(
            f"x is {x.dtype}, weight {weight.dtype}; both are bfloat16, float16 or float32"
        )
    if weight.dim() != 2 or x.shape[-1] != weight.shape[1] or activation not in ACTIVATIONS:
        raise ValueError(
            f"x has size {tuple(x.shape)}, weight {tuple(weight.shape)}, {activation=}"
        )
    (n, k), x, weight = weight.shape, x.contiguous(), weight.contiguous()
    out = x.new_empty((*x.shape[:-1], n))
    rows = x.numel() // k if k else 0
    if not rows or not n:
        return out
    key = rows, n, k, x.dtype, x.device, bias is not None, activation
    launch = _launches.get(key)
    if launch is None:
        if len(_launches) >= _MOST_LAUNCHES:
            _launches.clear()
        launch = _launches[key] = _launch(rows, n, k, x, bias is not None, activation or "")
    launch((out, x, weight, x, weight, out if bias is None else bias), (rows,))
    return out
