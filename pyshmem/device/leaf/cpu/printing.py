# SPDX-License-Identifier: BSD-3-Clause
"""What kernels print: words, which the host makes text of when the launch has ended, as on a GPU."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from numba import types
from numba.core import cgutils, errors

from ...._core.library import ffi
from .target import I64, LOWER, VOID, call

_END, _INT, _UINT, _BOOL, _FLOAT32, _FLOAT64, _TEXT = range(7)


def _text(context: Any, builder: Any, text: str) -> Any:
    place = context.insert_const_string(builder.module, text)
    return builder.ptrtoint(place, I64)


def _word(context: Any, builder: Any, kind: Any, value: Any) -> tuple[int, Any]:
    if isinstance(kind, types.StringLiteral):
        return _TEXT, _text(context, builder, kind.literal_value)
    plain = types.unliteral(kind)
    if plain == types.boolean:
        return _BOOL, builder.zext(context.cast(builder, value, kind, plain), I64)
    if isinstance(plain, types.Integer):
        wide = types.int64 if plain.signed else types.uint64
        return (_INT if plain.signed else _UINT), context.cast(builder, value, kind, wide)
    if isinstance(plain, types.Float):
        number = context.cast(builder, value, kind, types.float64)
        form = _FLOAT32 if plain == types.float32 else _FLOAT64
        return form, builder.bitcast(number, I64)
    raise errors.LoweringError(f"kernels compiled for the CPU print numbers and texts, not {plain}")


def lower(context: Any, sig: Any, builder: Any, args: Any) -> Any:
    """A call of ``print``: an array of words."""
    words = [
        _word(context, builder, kind, value) for kind, value in zip(sig.args, args, strict=True)
    ]
    words.append((_END, I64(0)))
    array = cgutils.alloca_once(builder, I64, size=2 * len(words))
    for at, (kind, bits) in enumerate(words):
        builder.store(I64(kind), builder.gep(array, [I64(2 * at)]))
        builder.store(bits, builder.gep(array, [I64(2 * at + 1)]))
    pointer = builder.bitcast(array, cgutils.voidptr_t)
    call(builder, "pysh_cpu_print", VOID, pointer, I64(len(words)))
    return context.get_dummy_value()


LOWER["print"] = lower


def _item(kind: int, bits: int) -> Any:
    if kind == _TEXT:
        return ffi.string(ffi.cast("char *", bits)).decode()
    if kind == _BOOL:
        return bool(bits)
    if kind == _UINT:
        return bits % (1 << 64)
    if kind == _INT:
        return bits
    number = struct.unpack("<d", struct.pack("<q", bits))[0]
    return np.float32(number) if kind == _FLOAT32 else number


def show(words: Any, count: int) -> None:
    """Print what a launch has printed."""
    items: list[Any] = []
    for k in range(count):
        if words[k].kind == _END:
            print(*items)
            items = []
        else:
            items.append(_item(words[k].kind, words[k].bits))
