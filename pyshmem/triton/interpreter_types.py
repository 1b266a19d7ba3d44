# SPDX-License-Identifier: BSD-3-Clause
"""What Triton's interpreter computes otherwise than a GPU, put right: it would be wrong without a word.

A bfloat16 is kept as a uint16, and taken for one by arithmetic, and by casts but those to float32 and
float16. Here all of it is done in float32, and rounded to the nearest even. A scalar truth value that is
spread over a tile becomes an int32, which is no mask. An exchange of floats is one of their bits.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter
from triton.runtime.interpreter import TensorHandle


def _is_bfloat16(handle: Any) -> bool:
    """Comparisons leave truth values behind that are labelled as what was compared."""
    return (
        isinstance(handle, TensorHandle)
        and handle.dtype.scalar == tl.bfloat16
        and handle.data.dtype == np.uint16
    )


def _widened(handle: Any) -> Any:
    if not _is_bfloat16(handle):
        return handle
    return TensorHandle((handle.data.astype(np.uint32) << 16).view(np.float32), tl.float32)


def _rounded(handle: Any) -> Any:
    bits = handle.data.astype(np.float32).view(np.uint32)
    nearest = bits + (0x7FFF + (bits >> 16 & 1)) >> 16
    quiet_nan = bits >> 16 | 0x40
    data = np.where(np.isnan(handle.data), quiet_nan, nearest).astype(np.uint16)
    return TensorHandle(data, tl.bfloat16)


def _cast(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def cast_impl(self: Any, source: Any, dtype: Any) -> Any:
        if _is_bfloat16(source):
            return (
                source if dtype.scalar == tl.bfloat16 else original(self, _widened(source), dtype)
            )
        if dtype.scalar == tl.bfloat16:
            return _rounded(original(self, source, tl.float32))
        return original(self, source, dtype)

    return cast_impl


def _compute(original: Callable[..., Any]) -> Callable[..., Any]:
    """An operation of the builder on tiles, of one dtype but for the condition of a selection."""

    @functools.wraps(original)
    def operation(self: Any, *given: Any) -> Any:
        if np.where in given or not any(map(_is_bfloat16, given)):
            return original(self, *given)
        result = original(self, *map(_widened, given))
        if result.data.dtype == np.bool_:
            return TensorHandle(result.data, tl.bfloat16)
        return _rounded(result)

    return operation


def _dot(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def create_dot(self: Any, a: Any, b: Any, total: Any, *rest: Any) -> Any:
        result = original(self, _widened(a), _widened(b), _widened(total), *rest)
        return _rounded(result) if _is_bfloat16(total) else result

    return create_dot


def _sum(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def sum_(self: Any, tile: Any) -> Any:
        if not _is_bfloat16(tile.handle):
            return original(self, tile)
        wide = tl.tensor(_widened(tile.handle), tl.block_type(tl.float32, tile.shape))
        total = _rounded(original(self, wide).handle).data
        return self.to_tensor(total if tile.handle.data.ndim > 1 else total.item(), tl.bfloat16)

    return sum_


def _splat(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def create_splat(self: Any, *given: Any) -> Any:
        result = original(self, *given)
        scalar = next(one for one in given if isinstance(one, TensorHandle))
        if scalar.data.dtype == np.bool_:
            result.data = result.data.astype(np.bool_)
        return result

    return create_splat


def _exchange(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def create_atomic_rmw(self: Any, operation: Any, pointer: Any, value: Any, *rest: Any) -> Any:
        kind = value.data.dtype
        if operation != interpreter._ir.ATOMIC_OP.XCHG or kind.kind != "f":
            return original(self, operation, pointer, value, *rest)
        bits = TensorHandle(value.data.view(f"i{kind.itemsize}"), value.dtype)
        result = original(self, operation, pointer, bits, *rest)
        result.data = result.data.view(kind)
        return result

    return create_atomic_rmw


def install() -> None:
    """Patches Triton's interpreter."""
    builder = interpreter.InterpreterBuilder
    for name, repaired in (
        ("cast_impl", _cast),
        ("binary_op", _compute),
        ("unary_op", _compute),
        ("ternary_op", _compute),
        ("create_fma", _compute),
        ("create_dot", _dot),
        ("create_splat", _splat),
        ("create_atomic_rmw", _exchange),
    ):
        setattr(builder, name, repaired(getattr(builder, name)))
    interpreter.ReduceOps.sum = _sum(interpreter.ReduceOps.sum)
