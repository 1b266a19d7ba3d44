# SPDX-License-Identifier: BSD-3-Clause
"""Does a routine of the host take what it is given? Else it has no effect, and none is recorded.

It is asked before the call: what others may see at once is recorded before it, and what comes late is
not called yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..._core.arrays.checks import pair, place, signal_target, target
from ..._core.dtypes import bits_of, integer
from ..._core.errors import ShmemError
from ..._core.type_table import ATOMIC_FAMILY, ELEMENTS
from ...host.teams.contexts import context_of

Given = Mapping[str, Any]
#: Routines, of kernels too, that send something and fetch nothing.
SENDING = frozenset((
    "put", "put_nbi", "p", "iput", "ibput", "put_signal", "put_signal_nbi", "signal_op", "signal_set",
    "signal_add", "atomic_set", "atomic_inc", "atomic_add", "atomic_and", "atomic_or", "atomic_xor",
))  # fmt: skip
_PUTS = frozenset(("put", "put_nbi", "put_signal", "put_signal_nbi", "get_nbi"))
_STRIDED = frozenset(("iput", "ibput"))


def is_taken(name: str, given: Given) -> bool:
    """Would the routine raise nothing? What the checker knows has been looked at: PEs, and the heap."""
    try:
        if "ctx" in given and not context_of(given["ctx"]).handle:
            raise ValueError  # it was destroyed
        if name in _STRIDED:
            _check_strided(given)
        elif name in _PUTS:
            here, there = ("dest", "source") if name == "get_nbi" else ("source", "dest")
            pair(given[here], given[there], given["nelems"], (here, there), here)
        elif name == "p":
            target(given["dest"], "dest", writable=True)[1].one(given["value"], "value")
        elif name.startswith("atomic_"):
            _check_atomic(name, given)
        if "signal" in given:
            signal_target(given["sig_addr"], writable=True)
            integer("signal", given["signal"], np.uint64)
    except (TypeError, ValueError, ArithmeticError, ShmemError):
        return False
    return True


def _check_atomic(name: str, given: Given) -> None:
    word = "dest" if "dest" in given else "source"
    _, kind = target(given[word], word, writable=word == "dest")
    op = name.removeprefix("atomic_").removesuffix("_nbi").removeprefix("fetch_")
    family = ATOMIC_FAMILY["add" if op == "inc" else op]
    if kind.element < 0 or family not in ELEMENTS[kind.element].families:
        raise TypeError
    for value in ("value", "cond"):
        if value in given:
            bits_of(kind, given[value], value)
    if "fetch" in given:
        _, capacity, fetched = place(given["fetch"], "fetch", symmetric=False, writable=True)
        if fetched is not kind or not capacity:
            raise TypeError


def _check_strided(given: Given) -> None:
    """Strides, counts and the block are those that its description takes: integers, and in order."""
    block = given.get("bsize", 1)
    dest, source = (
        place(given[name], name, symmetric=name == "dest", writable=name == "dest")
        for name in ("dest", "source")
    )
    if dest[2] is not source[2]:
        raise TypeError
    dst, sst = (block if given[name] is None else given[name] for name in ("dst", "sst"))
    count = given.get("nelems", given.get("nblocks"))
    if count is None:
        count = max(0, (_size(source) - block) // sst + 1)
    for side, stride in ((dest, dst), (source, sst)):
        if count and (count - 1) * stride + block > _size(side):
            raise ValueError


def _size(side: tuple[int, int, Any]) -> int:
    return int(side[1] // side[2].dtype.itemsize)
