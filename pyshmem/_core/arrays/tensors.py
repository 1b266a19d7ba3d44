# SPDX-License-Identifier: BSD-3-Clause
"""Tensors of torch on a heap, by one look of C.

By its array interface, which torch makes anew each time, a tensor takes Python tens of microseconds, and
the call of the driver that copies it takes less.
"""

from __future__ import annotations

import sys
from typing import Any

from .. import _fast
from ..dtypes import Kind, kind_of
from ..library import lib
from . import dlpack

_known = False
#: By DLPack's word of a dtype: its code, bits and lanes. None: NumPy has no such dtype.
_kinds: dict[int, Kind | None] = {}


def know() -> None:
    """Torch is imported by whoever has a tensor; never here. From then on ``_fast`` looks at tensors."""
    global _known
    torch: Any = sys.modules.get("torch")
    if not _known and hasattr(torch, "nn"):  # not while it is being imported
        _known = True
        exchange = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)  # torch 2.10 and later
        _fast.know_tensors(exchange, torch.Tensor, torch.nn.Parameter)


def _kind(word: int) -> Kind | None:
    if word not in _kinds:
        try:
            _kinds[word] = kind_of(dlpack.dtype_of(word & 0xFF, word >> 8 & 0xFF, word >> 16))
        except TypeError:
            _kinds[word] = None
    return _kinds[word]


def on_heap(array: Any) -> tuple[int, int, Kind] | None:
    """Address, bytes and kind of a tensor whose elements lie on a heap, one behind the other.

    None: it is something else, at which who calls has to look, and of which he can tell what is wrong.
    """
    if not _known:
        know()
    found = _fast.tensor(array)
    if found is None or not found[1] or lib.heap_of(found[0], found[1]) < 0:
        return None
    kind = _kind(found[2])
    return None if kind is None else (found[0], found[1], kind)
