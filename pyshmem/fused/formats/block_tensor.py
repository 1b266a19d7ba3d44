# SPDX-License-Identifier: BSD-3-Clause
"""Elements and their scales in one: what operations take that get rows in MXFP8 and NVFP4."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from ..._core.errors import UnsupportedError
from .._shared.arguments import check_tensor
from .._shared.powers import power_of_2
from .kernels import Blocks, dequantise_rows
from .table import (
    BLOCK_FORMATS,
    BlockFormat,
    check_global_scale,
    global_scale_tensor,
    lacks_fp8,
    named,
)

_TILE = 4096  # elements


class BlockTensor(NamedTuple):
    """Rows in MXFP8 or NVFP4, as ``formats.quantize`` gives them.

        x = formats.BlockTensor(*formats.quantize(rows, "nvfp4", global_scale=g), "nvfp4", g)

    Attributes:
        elements: (..., hidden) float8_e4m3fn, or (..., hidden / 2) float4_e2m1fn_x2; or their bytes.
        scales: their scales, or bytes.
        quantize: the format, with the layout of ``scales``: "mxfp8", "nvfp4", "mxfp8_swizzled" or
            "nvfp4_swizzled".
        global_scale: as it was given to ``quantize``.
    """

    elements: Any
    scales: Any
    quantize: str
    global_scale: Any = None


def checked(name: str, given: Any, dims: int | None = None) -> tuple[Any, Any, BlockFormat]:
    """The bytes of elements and of scales, and the format, of a BlockTensor that can be used.

    Raises: TypeError, ValueError (dtypes, sizes, layout), UnsupportedError (a GPU without FP8).
    """
    if not isinstance(given, BlockTensor):
        raise TypeError(
            f"{name} is {type(given).__name__}; it is a formats.BlockTensor, as the other"
        )
    elements, scales, quantize, unit = given
    format_ = named(quantize)
    if format_ is None:
        known = " or ".join(map(repr, BLOCK_FORMATS))
        raise ValueError(f"{name} has quantize={quantize!r}; it is {known}")
    check_tensor(f"{name}.elements", elements, (format_.dtype, torch.uint8), dims)
    check_tensor(f"{name}.scales", scales, (format_.scale_dtype, torch.uint8))
    check_global_scale(unit, quantize)
    if not elements.dim() or not elements.shape[-1]:
        raise ValueError(f"{name}.elements has size {tuple(elements.shape)}; rows are not empty")
    size = (*elements.shape[:-1], elements.shape[-1] * format_.per_byte)
    if tuple(scales.shape) != format_.scales_size(size):
        raise ValueError(
            f"{name}.scales has size {tuple(scales.shape)}; those of elements of size "
            f"{tuple(elements.shape)} have {format_.scales_size(size)}"
        )
    if lacks_fp8(elements.device):
        raise UnsupportedError("the GPU of this PE has no FP8 (compute capability 8.9)")
    return elements.view(torch.uint8), scales.view(torch.uint8), format_


def unit_of(given: BlockTensor) -> torch.Tensor | None:
    """The global scale where kernels find it."""
    unit = global_scale_tensor(given.global_scale, given.elements)
    return None if unit is None else unit.view(-1)


def rows_of(
    elements: torch.Tensor, scales: torch.Tensor, format_: BlockFormat, dtype: torch.dtype
) -> torch.Tensor:
    """Rows (count, bytes) times the scales of their blocks, as ``dtype``, by one kernel.

    In bfloat16 that is exact but for the smallest: an element has at most 4 bits, with its scale 6.
    """
    count, hidden = elements.shape[0], elements.shape[1] * format_.per_byte
    made = torch.empty((count, hidden), dtype=dtype, device=elements.device)
    if count:
        columns = min(max(power_of_2(hidden), format_.group), _TILE)
        blocks = Blocks(
            format_.kind, hidden, format_.blocks(hidden), format_.group, format_.per_byte,
            format_.swizzled, False, _TILE // columns, columns,
        )  # fmt: skip
        grid = -(-count // blocks.TR), -(-hidden // columns)
        dequantise_rows[grid](made, elements, scales, count, BLOCKS=blocks, num_warps=4)
    return made
