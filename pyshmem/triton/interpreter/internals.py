# SPDX-License-Identifier: BSD-3-Clause
"""Follows the library's own kernels, for tests of the library: ``check.log.internals``.

Else routines are taken at their word. Here nothing is described: what counts is what their bodies load
and store, and the leaf primitives below. The threads of a program are told apart as far as its barriers
go: what a wait has seen is known to all behind the next barrier, and a release tells of what was stored
before the last one. Packets of LL have their flags in them, and are not shown: nothing orders them but
that they are whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...check import effects, memory
from ...check.effects import Effects
from ..runtime import context as job
from . import bodies

_FENCE = ("Pf",)
_BARRIER = ("P",)
_write: Callable[[str, Effects], None]  # a record of the running program


def _array(value: Any) -> np.ndarray:
    return np.asarray(bodies._array(value))


def _words(active: Any, pointer: Any, values: Any) -> list[tuple[Any, int]]:
    """PE, heap, begin and end of each word that is on a heap, with its value."""
    actives, addresses, seen = np.broadcast_arrays(_array(active), _array(pointer), _array(values))
    size = pointer.dtype.element_ty.primitive_bitwidth // 8
    found = []
    for place in zip(*np.nonzero(actives), strict=True):
        at = memory.where(int(addresses[place]))
        if at is not None:
            found.append(((*at, at[2] + size), int(seen[place])))
    return found


def _seen(active: Any, pointer: Any, values: Any) -> Effects:
    """Some threads have looked at words."""
    words = _words(active, pointer, values)
    return [("Yp", *place, effects.EQUAL, value, value, value) for place, value in words]


def _set(active: Any, pointer: Any, values: Any, op: str) -> Effects:
    words = _words(active, pointer, values)
    return [("a", *place, 0, op, value, None, False) for place, value in words]


def _barrier(plain: Callable[..., Any]) -> Callable[..., Any]:
    def program_barrier() -> None:
        _write("barrier", [_BARRIER])
        plain()

    return program_barrier


def _fence(plain: Callable[..., Any]) -> Callable[..., Any]:
    def fence_all() -> None:
        _write("fence", [_FENCE])
        plain()

    return fence_all


def _poll(plain: Callable[..., Any]) -> Callable[..., Any]:
    def poll(active: Any, pointer: Any, cmp: Any, *more: Any) -> Any:
        found = plain(active, pointer, cmp, *more)
        _write("wait", _seen(active, pointer, found))
        return found

    return poll


def _met(plain: Callable[..., Any]) -> Callable[..., Any]:
    """One thread looks, and the others meet it; ``poll`` in it has recorded what it saw."""

    def call(*given: Any) -> Any:
        found = plain(*given)
        _write("wait", [_BARRIER])
        return found

    return call


def _scan(plain: Callable[..., Any]) -> Callable[..., Any]:
    def scan(pointer: Any, *more: Any) -> Any:
        found = plain(pointer, *more)
        n = bodies.number(found)
        did: Effects = []
        if n >= 0:
            size = pointer.dtype.element_ty.primitive_bitwidth // 8
            at = bodies.number(pointer) + n * size
            where = memory.where(at)
            value = job.read(at, size, pointer.dtype.element_ty.is_int_signed())
            if where is not None:
                did = [("Yp", *where, where[2] + size, effects.EQUAL, value, value, value)]
        _write("wait", [*did, _BARRIER])
        return found

    return scan


def _fetch(plain: Callable[..., Any]) -> Callable[..., Any]:
    def fetch(pointer: Any) -> Any:
        found = plain(pointer)
        _write("look", [*_seen(1, pointer, found), _BARRIER])
        return found

    return fetch


def _read_words(plain: Callable[..., Any]) -> Callable[..., Any]:
    def read_words(active: Any, pointer: Any) -> Any:
        found = plain(active, pointer)
        _write("look", _seen(active, pointer, found))
        return found

    return read_words


def _set_words(plain: Callable[..., Any]) -> Callable[..., Any]:
    def set_words(active: Any, pointer: Any, value: Any) -> None:
        _write("release", [_FENCE, *_set(active, pointer, value, "set")])
        plain(active, pointer, value)

    return set_words


def _release(op: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def around(plain: Callable[..., Any]) -> Callable[..., Any]:
        def release(pointer: Any, value: Any) -> None:
            _write("release", [_BARRIER, _FENCE, *_set(1, pointer, value, op)])
            plain(pointer, value)

        return release

    return around


def _relaxed(_: Callable[..., Any]) -> Callable[..., Any]:
    """Of its own, as the plain one is made of releases."""

    def relaxed_word(adds: Any, pointer: Any, value: Any) -> None:
        _write("relaxed", _set(1, pointer, value, "add" if adds else "set"))
        (job.release_add if adds else job.release_set)(bodies.number(pointer), bodies.number(value))

    return relaxed_word


_WRAPPED = {
    "program_barrier": _barrier, "fence_all": _fence, "poll": _poll, "wait": _met, "scan": _scan,
    "fetch": _fetch, "read_words": _read_words, "set_words": _set_words,
    "release_set": _release("set"), "release_add": _release("add"), "relaxed_word": _relaxed,
}  # fmt: skip


def install(write: Callable[[str, Effects], None]) -> None:
    """Put records around the leaf primitives, before ``primitives.backend`` takes them."""
    global _write
    _write = write
    plain = {name: getattr(bodies, name) for name in _WRAPPED}
    for name, around in _WRAPPED.items():
        setattr(bodies, name, around(plain[name]))
