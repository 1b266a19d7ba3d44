# SPDX-License-Identifier: BSD-3-Clause
"""The bits of MXFP8 and NVFP4 in NumPy: scales by logarithms, elements by the casts of ml_dtypes."""

from __future__ import annotations

import ml_dtypes
import numpy as np

GROUP = {"mxfp8": 32, "nvfp4": 16}
_E8M0, _E4M3, _E2M1 = (
    ml_dtypes.float8_e8m0fnu, ml_dtypes.float8_e4m3fn, ml_dtypes.float4_e2m1fn,
)  # fmt: skip


def in_blocks(x: np.ndarray, group: int) -> np.ndarray:
    """(rows, blocks, group) of float32, the last block filled with 0."""
    rows, hidden = x.shape
    blocks = -(-hidden // group)
    whole = np.zeros((rows, blocks * group), np.float32)
    whole[:, :hidden] = x
    return whole.reshape(rows, blocks, group)


def mxfp8(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bytes of elements, (rows, hidden), and of scales, (rows, blocks)."""
    blocks = in_blocks(x, 32)
    largest = np.abs(blocks).max(-1)  # NaN if there is one
    wrong = np.isnan(largest)
    exponents = np.frexp(np.where(np.isfinite(largest), largest, 1))[1] - 1  # floor of log2
    exponents = np.where(np.isinf(largest), 128, exponents) - 8
    exponents = np.where(largest == 0, -127, np.maximum(exponents, -127))
    scales = np.ldexp(1.0, exponents).astype(_E8M0)
    scales[wrong] = np.nan
    quotients = blocks.astype(np.float64) / np.ldexp(1.0, exponents)[..., None]
    made = np.clip(quotients, -448, 448).astype(_E4M3).view(np.uint8)
    made = np.where(wrong[..., None], 0x7F, made)
    return made.reshape(len(x), -1)[:, : x.shape[1]], scales.view(np.uint8)


def nvfp4(x: np.ndarray, global_scale: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Bytes of pairs of elements, (rows, hidden / 2), and of scales, (rows, blocks)."""
    blocks, unit = in_blocks(x, 16), np.float32(global_scale)
    largest = np.abs(blocks).max(-1)
    scales = np.minimum(largest / (np.float32(6) * unit), np.float32(448)).astype(_E4M3)
    steps = scales.astype(np.float32) * unit
    inverse = np.where(steps == 0, np.float32(0), np.float32(1) / steps)
    sizes = np.abs(blocks) * inverse[..., None]
    codes = np.where(sizes < 6, sizes, 6).astype(_E2M1).view(np.uint8) & 7
    codes |= np.signbit(blocks).astype(np.uint8) << 3
    codes = codes.reshape(len(x), -1)[:, : x.shape[1]]
    made = np.where(np.isnan(largest), 0x7F, scales.view(np.uint8)).astype(np.uint8)
    return codes[:, ::2] | codes[:, 1::2] << 4, made


def bits(x: np.ndarray, kind: str, global_scale: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Of a format by its name."""
    with np.errstate(all="ignore"):
        return mxfp8(x) if kind == "mxfp8" else nvfp4(x, global_scale)


def swizzled(scales: np.ndarray) -> np.ndarray:
    """Tiles of 128 x 4 by the formula of cuBLAS for one place."""
    rows, blocks = scales.shape
    high, wide = -(-rows // 128) * 128, -(-blocks // 4) * 4
    out = np.zeros(high * wide, np.uint8)
    for row in range(rows):
        for block in range(blocks):
            tile = row // 128 * (wide // 4) + block // 4
            out[tile * 512 + row % 32 * 16 + row % 128 // 32 * 4 + block % 4] = scales[row, block]
    return out.reshape(high, wide)


def values(elements: np.ndarray, scales: np.ndarray, kind: str, unit: float = 1.0) -> np.ndarray:
    """What bytes of rows, and of their scales in the plain layout, stand for; float64."""
    if kind == "mxfp8":
        found = elements.view(_E4M3).astype(np.float64)
        factors = scales.view(_E8M0).astype(np.float64)
    else:
        codes = np.stack([elements & 15, elements >> 4], -1).reshape(len(elements), -1)
        found = codes.astype(np.uint8).view(_E2M1).astype(np.float64)
        factors = scales.view(_E4M3).astype(np.float64) * np.float64(np.float32(unit))
    return found * np.repeat(factors, GROUP[kind], 1)[:, : found.shape[1]]
