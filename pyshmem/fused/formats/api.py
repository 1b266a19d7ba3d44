# SPDX-License-Identifier: BSD-3-Clause
"""``quantize`` and ``dequantize``, and the two layouts of scales."""

from __future__ import annotations

from typing import Any

import torch

from ..._core.errors import UnsupportedError
from .._shared.arguments import check_tensor, on_tensors, refuse_grad
from .._shared.powers import power_of_2
from .kernels import Blocks, quantise_rows
from .table import (
    BLOCK_FORMATS,
    BlockFormat,
    check_global_scale,
    global_scale_tensor,
    lacks_fp8,
    named,
)

_DTYPES = (torch.float16, torch.bfloat16, torch.float32)
_TILE = 4096  # elements
_E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)  # by their codes


@on_tensors
def quantize(x: Any, quantize: str, *, global_scale: Any = None) -> tuple[Any, Any]:
    """Rows as MXFP8 or NVFP4, in blocks along the last extent: what operations give with ``quantize=``.

        elements, scales = pyshmem.fused.formats.quantize(x, "nvfp4", global_scale=0.01)

    An element times the scale of its block, times the global scale, is what it stands for. The bits are
    those that ``docs/fused.md`` says, the same on all GPUs and in the interpreter.

    Args:
        x: (..., hidden), float16, bfloat16 or float32, contiguous; hidden is even.
        quantize: ``"mxfp8"``: blocks of 32 E4M3 elements with an E8M0 scale, whose exponent is that of
            the largest element less 8, so elements above 448 become 448; ``"nvfp4"``: blocks of 16 E2M1
            elements, two to a byte, the first in the low bits, with an E4M3 scale;
            ``"mxfp8_swizzled"``, ``"nvfp4_swizzled"``: scales in tiles of 128 rows and 4 blocks, padded
            with 0, as cuBLAS and ``_scaled_mm`` of torch take them. The last block may be shorter.
        global_scale: of NVFP4, one float32 number or tensor from 2**-100 to 2**100; default 1. With
            ``amax / (448 * 6)`` of the whole no block is cut off.

    Returns: elements, (..., hidden) float8_e4m3fn or (..., hidden / 2) float4_e2m1fn_x2; scales, (...,
        blocks) float8_e8m0fnu or float8_e4m3fn, or swizzled (rows, blocks), rounded up to whole tiles.
        For arrays of CuPy and NumPy both are bytes. A block with a NaN has the scale NaN.
    Completes: in the order of the current stream.
    Raises: TypeError, ValueError (dtype, sizes, layout), UnsupportedError (a GPU without FP8),
        RuntimeError (``x`` requires grad: there is no derivative), NotInitialized.
    Extension.
    """
    format_ = _format(quantize)
    check_tensor("x", x, _DTYPES)
    if not x.dim() or not x.shape[-1] or x.shape[-1] % 2:
        raise ValueError(f"x has size {tuple(x.shape)}; its last extent, hidden, is even and not 0")
    check_global_scale(global_scale, quantize)
    refuse_grad("formats.quantize", x)
    if lacks_fp8(x.device):
        raise UnsupportedError("the GPU of this PE has no FP8 (compute capability 8.9)")
    output, scales = format_.new_output(x), format_.new_scales(x)
    hidden = x.shape[-1]
    count = x.numel() // hidden
    if count:
        columns = min(max(power_of_2(hidden), format_.group), _TILE)
        blocks = Blocks(
            format_.kind, hidden, format_.blocks(hidden), format_.group, format_.per_byte,
            format_.swizzled, global_scale is not None, _TILE // columns, columns,
        )  # fmt: skip
        unit = global_scale_tensor(global_scale, x)
        quantise_rows[(-(-count // blocks.TR),)](
            x, output.view(torch.uint8), scales.view(torch.uint8), x if unit is None else unit, count,
            BLOCKS=blocks, num_warps=4,
        )  # fmt: skip
    return output, scales


@on_tensors
def dequantize(
    elements: Any, scales: Any, quantize: str, *, global_scale: Any = None,
    dtype: torch.dtype = torch.float32,
) -> Any:  # fmt: skip
    """What MXFP8 or NVFP4 elements stand for: the product in float32, rounded to ``dtype``.

        rows = pyshmem.fused.formats.dequantize(elements, scales, "nvfp4", global_scale=0.01)

    Args:
        elements, scales: as ``quantize`` gives them, or uint8 tensors of the same bytes.
        quantize: the format, with the layout of ``scales``.
        global_scale: as it was given there.
        dtype: of the result: float16, bfloat16 or float32.

    Returns: (..., hidden).
    Completes: in the order of the current stream.
    Raises: TypeError (dtypes), ValueError (sizes that do not go together, layout).
    Extension.
    """
    format_ = _format(quantize)
    check_global_scale(global_scale, quantize)
    check_tensor("elements", elements, (format_.dtype, torch.uint8))
    check_tensor("scales", scales, (format_.scale_dtype, torch.uint8))
    if dtype not in _DTYPES:
        raise TypeError(f"dtype is {dtype}; it can be float16, bfloat16, float32 of torch")
    if not elements.dim() or not elements.shape[-1]:
        raise ValueError(f"elements have size {tuple(elements.shape)}; rows are not empty")
    size = (*elements.shape[:-1], elements.shape[-1] * format_.per_byte)
    hidden = size[-1]
    if tuple(scales.shape) != format_.scales_size(size):
        raise ValueError(
            f"scales have size {tuple(scales.shape)}; those of elements of size "
            f"{tuple(elements.shape)} have {format_.scales_size(size)}"
        )
    if format_.swizzled:
        rows = elements.numel() // max(elements.shape[-1], 1)
        blocks = format_.blocks(hidden)
        scales = unswizzle(scales, rows, blocks).view(*size[:-1], blocks)
    factors = scales.view(format_.scale_dtype).float().repeat_interleave(format_.group, -1)
    factors = factors[..., :hidden]
    if global_scale is not None:
        factors = factors * global_scale
    if format_.per_byte == 1:
        values = elements.view(format_.dtype).float()
    else:
        codes = elements.view(torch.uint8)
        codes = torch.stack([codes & 15, codes >> 4], -1).view(size).long()
        table = torch.tensor([*_E2M1, *(-one for one in _E2M1)], device=elements.device)
        values = table[codes]
    return (values * factors).to(dtype)


@on_tensors
def swizzle(scales: Any) -> Any:
    """Scales of rows and blocks in tiles of 128 x 4, padded with 0, as cuBLAS takes them.

        tiles = pyshmem.fused.formats.swizzle(scales)

    Args:
        scales: (..., blocks), contiguous, of one byte each.

    Returns: (rows rounded up to 128, blocks rounded up to 4), of the same dtype, whose memory is tile
        behind tile; rows r, r + 32, r + 64, r + 96 of a tile have 16 bytes side by side.
    Raises: TypeError (elements of more than a byte), ValueError (layout, no blocks).
    Extension.
    """
    made = _bytes_of(scales)
    if not made.dim() or not made.shape[-1]:
        raise ValueError(f"scales have size {tuple(made.shape)}; rows have one or more")
    rows = made.view(-1, made.shape[-1])
    high, wide = -(-rows.shape[0] // 128), -(-rows.shape[1] // 4)
    padded = rows.new_zeros((high * 128, wide * 4))
    padded[: rows.shape[0], : rows.shape[1]] = rows
    tiles = padded.view(high, 4, 32, wide, 4).permute(0, 3, 2, 1, 4)
    return tiles.reshape(high * 128, wide * 4).view(scales.dtype)


@on_tensors
def unswizzle(scales: Any, rows: int, blocks: int) -> Any:
    """The scales of so many rows and blocks out of tiles: what ``swizzle`` was given.

        scales = pyshmem.fused.formats.unswizzle(tiles, rows, blocks)

    Args:
        scales: as ``swizzle`` gives them.
        rows, blocks: how many there are without what pads them.

    Returns: (rows, blocks), of the same dtype.
    Raises: TypeError (elements of more than a byte), ValueError (another number of tiles, layout).
    Extension.
    """
    made = _bytes_of(scales)
    if rows < 0 or blocks < 1:
        raise ValueError(f"{rows} rows of {blocks} blocks are no scales")
    high, wide = -(-rows // 128), -(-blocks // 4)
    if scales.numel() != high * wide * 512:
        whole = f"{rows} rows of {blocks} blocks have {high * wide * 512}"
        raise ValueError(f"scales have {scales.numel()} bytes; {whole}")
    tiles = made.view(high, wide, 32, 4, 4).permute(0, 3, 2, 1, 4)
    whole = tiles.reshape(high * 128, wide * 4)
    return whole[:rows, :blocks].contiguous().view(scales.dtype)


def _bytes_of(scales: Any) -> torch.Tensor:
    if not isinstance(scales, torch.Tensor) or scales.element_size() != 1:
        what = scales.dtype if isinstance(scales, torch.Tensor) else type(scales).__name__
        raise TypeError(f"scales are {what}; they are a tensor of elements of one byte each")
    check_tensor("scales", scales, (scales.dtype,))
    return scales.view(torch.uint8)


def _format(quantize: str) -> BlockFormat:
    found = named(quantize)
    if found is None:
        raise ValueError(f"quantize is {quantize!r}; it is {' or '.join(map(repr, BLOCK_FORMATS))}")
    return found
