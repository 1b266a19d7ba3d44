# SPDX-License-Identifier: BSD-3-Clause
"""Slow, obvious answers. Nothing here knows pyshmem: NumPy, one element type at a time."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "EQ": operator.eq,
    "NE": operator.ne,
    "GT": operator.gt,
    "GE": operator.ge,
    "LT": operator.lt,
    "LE": operator.le,
}

_COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "max": np.maximum,
    "min": np.minimum,
    "sum": np.add,
    "prod": np.multiply,
}


def dtype_of(name: str) -> np.dtype[Any]:
    """A dtype by the name the type table gives it."""
    return np.dtype(getattr(ml_dtypes, name, name))


def pattern(n: int, dtype: Any, pe: int, salt: int = 0) -> np.ndarray:
    """``n`` elements: different on every PE, different from their neighbours, exact in any dtype."""
    dtype = dtype_of(dtype) if isinstance(dtype, str) else np.dtype(dtype)
    values = (np.arange(n) * 7 + 13 * pe + salt + 1) % 113
    if dtype.fields is not None:
        raw = (np.arange(n * dtype.itemsize) * 7 + 13 * pe + salt + 1) % 113
        return raw.astype(np.uint8).view(dtype)
    if dtype.kind == "b":
        return values % 2 == 0
    if dtype.kind == "c":
        return (values + 1j * (113 - values)).astype(dtype)
    return values.astype(dtype)


def factors(n: int, dtype: Any, pe: int) -> np.ndarray:
    """Small numbers, so that products stay exact in a 16-bit float."""
    return pattern(n, "int64", pe).__mod__(3).__add__(1).astype(dtype_of(dtype))


def reduce(op: str, parts: Sequence[np.ndarray]) -> np.ndarray:
    """Element by element over the PEs, from PE 0 up; 16-bit floats in float32, rounded at the end."""
    dtype = parts[0].dtype
    narrow = dtype.itemsize == 2 and dtype.kind not in "iu"
    total = parts[0].astype(np.float32 if narrow else dtype)
    for part in parts[1:]:
        with np.errstate(all="ignore"):
            total = _COMBINE[op](total, part.astype(total.dtype))
    with np.errstate(all="ignore"):
        return total.astype(dtype)


def wrap(value: int, dtype: Any) -> int:
    """An integer as the dtype keeps it: modulo two to the power of its bits."""
    limits = np.iinfo(dtype)
    return (value - limits.min) % (limits.max - limits.min + 1) + limits.min


def same(a: np.ndarray, b: np.ndarray) -> bool:
    """Bit by bit, except those bits that a long double does not use."""
    if a.dtype == np.longdouble:
        return bool((a == b).all())
    return a.tobytes() == b.tobytes()
