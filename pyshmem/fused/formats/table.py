# SPDX-License-Identifier: BSD-3-Clause
"""MXFP8 and NVFP4 on the host: names, sizes and dtypes of what ``block_kernels`` makes."""

from __future__ import annotations

import numbers
from typing import Any, NamedTuple

import torch

from ..._torch.staging import capturing
from .._shared.arguments import check_tensor
from .._shared.workspace import Workspace

_TILE_ROWS, _TILE_BLOCKS = 128, 4  # of swizzled scales
#: Global scales with which the products of three scales and an element stay in float32.
_LEAST_GLOBAL, _MOST_GLOBAL = 2.0**-100, 2.0**100


class BlockFormat(NamedTuple):
    """Elements in blocks along the last extent that have a scale each.

    Attributes:
        kind: ``"mxfp8"`` or ``"nvfp4"``.
        group: elements of a block; the last of a row may have fewer.
        dtype: of the elements.
        scale_dtype: of the scales.
        per_byte: elements of a byte, the first in the low bits.
        swizzled: whether scales are in tiles of 128 rows and 4 blocks, padded with 0.
    """

    kind: str
    group: int
    dtype: torch.dtype
    scale_dtype: torch.dtype
    per_byte: int
    swizzled: bool = False

    def blocks(self, hidden: int) -> int:
        """Blocks of a row."""
        return (hidden + self.group - 1) // self.group

    def output_size(self, size: Any) -> tuple[int, ...]:
        """What the elements of a tensor of that size have."""
        return (*size[:-1], size[-1] // self.per_byte)

    def scales_size(self, size: Any) -> tuple[int, ...]:
        """What the scales of a tensor of that size have."""
        blocks = self.blocks(size[-1])
        if not self.swizzled:
            return (*size[:-1], blocks)
        rows = 1
        for extent in size[:-1]:
            rows *= extent
        tiles = (rows + _TILE_ROWS - 1) // _TILE_ROWS, (blocks + _TILE_BLOCKS - 1) // _TILE_BLOCKS
        return tiles[0] * _TILE_ROWS, tiles[1] * _TILE_BLOCKS

    def new_output(self, x: torch.Tensor) -> torch.Tensor:
        """For the elements of ``x``."""
        return x.new_empty(self.output_size(x.shape), dtype=self.dtype)

    def new_scales(self, x: torch.Tensor) -> torch.Tensor:
        """For the scales of ``x``; kernels that make them make what pads them 0."""
        size = self.scales_size(x.shape)
        return torch.empty(size, dtype=self.scale_dtype, device=x.device)


_PLAIN = (
    BlockFormat("mxfp8", 32, torch.float8_e4m3fn, torch.float8_e8m0fnu, 1),
    BlockFormat("nvfp4", 16, torch.float4_e2m1fn_x2, torch.float8_e4m3fn, 2),
)
#: By the names that ``quantize=`` has for them.
BLOCK_FORMATS = {one.kind: one for one in _PLAIN}
BLOCK_FORMATS |= {f"{one.kind}_swizzled": one._replace(swizzled=True) for one in _PLAIN}


def named(quantize: Any) -> BlockFormat | None:
    """The format of that name; None if it is none, whatever it is."""
    return BLOCK_FORMATS.get(quantize) if isinstance(quantize, str) else None


def lacks_fp8(device: torch.device) -> bool:
    """Whether it is a GPU that does not convert to FP8."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device) < (8, 9)


def check_global_scale(value: Any, quantize: str | None) -> None:
    """Raises what is wrong with a global scale for that format; None is 1.

    Raises: TypeError, ValueError.
    """
    if value is None:
        return
    format_ = named(quantize)
    if format_ is None or format_.kind != "nvfp4":
        raise ValueError(
            f"global_scale is a part of NVFP4; with quantize={quantize!r} leave it out"
        )
    if isinstance(value, torch.Tensor):
        check_tensor("global_scale", value, (torch.float32,))
        if value.numel() != 1:
            raise ValueError(f"global_scale has size {tuple(value.shape)}; it is one number")
        if value.device.type == "cpu":  # a look at a GPU's waits for it: checking mode has it
            _check_size(float(value))
    elif isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(
            f"global_scale is {type(value).__name__}; give a number, or a float32 tensor of one"
        )
    else:
        _check_size(float(value))


def _check_size(value: float) -> None:
    if not _LEAST_GLOBAL <= value <= _MOST_GLOBAL:
        raise ValueError(f"global_scale is {value}; it is from 2**-100 to 2**100")


def compared_global_scale(value: Any, space: Workspace) -> Any:
    """What members compare of a global scale, which is of the same value on all of them.

    Where calls are compared anyway it is the value, that of a GPU's tensor in checking mode alone, for
    the host waits for it; later calls say whether there is one.

    Raises: ValueError, for a tensor with a number that no format has.
    """
    if value is None or not space.checks:
        return value is not None
    if isinstance(value, torch.Tensor):
        if value.is_cuda and (not space.checking or capturing()):
            return "a tensor"
        value = float(value)
        _check_size(value)
    return float(value)


def global_scale_tensor(value: Any, like: torch.Tensor) -> torch.Tensor | None:
    """Where kernels find it: a number is written to the device of ``like`` first."""
    if value is None or isinstance(value, torch.Tensor):
        return value
    return torch.full((1,), value, dtype=torch.float32, device=like.device)
