# SPDX-License-Identifier: BSD-3-Clause
"""Types of arguments and results in words, as the names of files of compiled routines have them."""

from __future__ import annotations

import functools
from typing import Any

from numba.cuda import types

from .hooks import Hook

#: The types that are told apart here.
HOOKS = tuple(
    Hook(types, name) for name in ("Omitted", "Literal", "Array", "UniTuple", "IntEnumMember")
)

_PLAIN = (type(None), bool, int, float)


@functools.cache
def scalars() -> dict[str, Any]:
    """Types of elements, numbers and results by name: what a store knows to write down."""
    names = (
        "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16",
        "float32", "float64", "complex64", "complex128", "boolean", "none", "bfloat16",
    )  # fmt: skip
    known = [getattr(types, name) for name in names if hasattr(types, name)]
    return {str(kind): kind for kind in known}


def written(kind: Any) -> str | None:
    """A type in words that say all of it; None: it has no such words."""
    if isinstance(kind, types.IntEnumMember):  # whose code is that of the number
        return written(kind.dtype)
    words = str(kind)
    if isinstance(kind, types.Omitted):
        return words if type(kind.value) in _PLAIN else None
    if isinstance(kind, types.Literal):
        return words if type(kind.literal_value) in _PLAIN else None
    if type(kind) is types.Array:
        element = written(kind.dtype)
        return element and f"{words} of {element} {kind.aligned} {kind.mutable}"
    if type(kind) is types.UniTuple:
        element = written(kind.dtype)
        return element and f"{words} of {element}"
    return words if scalars().get(words) == kind else None
