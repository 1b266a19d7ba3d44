# SPDX-License-Identifier: BSD-3-Clause
"""FP8 numbers in Triton's interpreter, which keeps them as uint8: they are moved and cast, as on a GPU.

A cast to FP8 is ``cvt.rn.satfinite`` of PTX: to the nearest, ties to even, what is too large to the
largest finite number. Triton compiles no arithmetic for them, and casts from and to float32, float16 and
bfloat16 only.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime.interpreter import TensorHandle

#: Bits of the exponent, its bias, the bits of the largest finite number, and of a NaN.
_FORMATS = {tl.float8e4nv: (4, 7, 0x7E, 0x7F), tl.float8e5: (5, 15, 0x7B, 0x7F)}
_FLOATS = (tl.float32, tl.float16, tl.bfloat16)
#: All of them; those without a format are of other makers' GPUs.
KINDS = frozenset(
    (tl.float8e4nv, tl.float8e5, tl.float8e4b15, tl.float8e4b8, tl.float8e5b16)
)  # fmt: skip


def refuse(given: Iterable[Any]) -> None:
    """TypeError: there are FP8 numbers among them."""
    for one in given:
        if isinstance(one, TensorHandle) and one.dtype.scalar in KINDS:
            raise TypeError(
                f"Triton computes nothing with {one.dtype.scalar} on GPUs: convert first, as "
                "tile.to(tl.float32)"
            )


def refuse_cast(source: Any, to: Any) -> None:
    """TypeError: Triton compiles no cast from one to the other."""
    known = {source, to} & set(_FORMATS)
    if len(known) != 1 or not {source, to} & set(_FLOATS):
        raise TypeError(
            f"Triton compiles no cast from {source} to {to} for GPUs: convert to tl.float32 first"
        )


@functools.cache
def _numbers(kind: Any) -> np.ndarray:
    """The 256 numbers of a kind, by their bits."""
    width, bias, largest, nan = _FORMATS[kind]
    bits = np.arange(128)
    exponent, fraction = bits >> (7 - width), (bits & (1 << (7 - width)) - 1) / (1 << (7 - width))
    normal = exponent > 0
    values = (fraction + normal) * np.exp2(np.where(normal, exponent, 1) - bias)
    if largest + 1 < nan:
        values[largest + 1] = np.inf
        values[largest + 2 :] = np.nan
    values[nan] = np.nan
    return np.concatenate([values, -values]).astype(np.float32)


def decoded(handle: Any) -> Any:
    """A tile of FP8 as one of float32; any other as it is."""
    kind = handle.dtype.scalar
    if kind not in _FORMATS:
        return handle
    return TensorHandle(_numbers(kind)[handle.data], tl.float32)


def encoded(handle: Any, kind: Any) -> Any:
    """A tile of floats as one of FP8."""
    largest, nan = _FORMATS[kind][2:]
    values = handle.data.astype(np.float64)
    numbers = _numbers(kind)[: largest + 1].astype(np.float64)
    middles = (numbers[1:] + numbers[:-1]) / 2
    low, high = (np.searchsorted(middles, np.abs(values), side) for side in ("left", "right"))
    bits = np.where(low % 2 == 0, low, high)  # they differ where it is in the middle
    bits = np.where(np.isnan(values), nan, bits | np.signbit(values) * 0x80)
    return TensorHandle(bits.astype(np.uint8), kind)
