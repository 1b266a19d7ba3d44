# SPDX-License-Identifier: BSD-3-Clause
"""Follows the library's own kernels, for tests of the library: ``check.log.internals``.

Else routines are taken at their word. Here nothing is described: what counts is what their bodies load
and store, and the leaf primitives below. The threads of a program are told apart as far as its barriers
go: what a wait has seen is known to all behind the next barrier, and a release tells of what was stored
before the last one. Packets of LL have their flags in them, and are not shown: nothing orders them but
that they are whole. With PYSHMEM_P2P=0 what counts are requests to the host: elements, words, and the
wait for all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..._core.type_table import ATOMIC_NUMBER
from ...check import effects, memory
from ...check.clocks import REQUESTS
from ...check.effects import Effects
from ..runtime import constants
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


# ---- requests to the host ------------------------------------------------------------------------

_KIND, _SIZE, _LOW = 0xFF, 8, (1 << 32) - 1  # of a request: what it is, and where its size stands

#: Who takes tickets meets the program's threads, and has a fence behind that: before what is asked for.
_TAKEN: Effects = [_BARRIER, _FENCE]


def _requests(a: dict[str, Any]) -> list[tuple[int, int, int]]:
    """Address, value and PE of each element of a tile that is asked for."""
    places = np.broadcast_arrays(*(_array(a[key]) for key in ("dest", "value", "pe", "active")))
    *named, active = (one.reshape(-1).tolist() for one in places)
    return [one for one, on in zip(zip(*named, strict=True), active, strict=True) if on]


def _word_set(address: int, value: int, where: int) -> Effects:
    """A word that the host sets, or adds to, on a PE: ``where`` is a request's PE and operation."""
    heap, low = memory.own(address)
    op = "add" if where >> 32 == ATOMIC_NUMBER["add"] else "set"
    return [("a", where & _LOW, heap, low, low + 8, 0, op, value, None, False)]


def _asked(a: dict[str, Any]) -> effects.Described:
    """Elements, or words, for other PEs."""
    kind, did = bodies.number(a["kind"]), [*_TAKEN]
    size = kind >> _SIZE & _KIND
    for address, value, pe in _requests(a):
        if kind & _KIND == bodies.number(constants.REQUEST_AMO):
            did += _word_set(address, value, pe)
        else:
            heap, low = memory.own(address)
            did.append(("s", pe, heap, ((low, low + size),), REQUESTS, value, value))
    return did, None


def _asked_for_one(a: dict[str, Any]) -> effects.Described:
    """A signal, which goes out behind all that the program has stored."""
    if bodies.number(a["kind"]) & _KIND != bodies.number(constants.REQUEST_AMO):
        return [], None
    given = (bodies.number(a[key]) for key in ("dest", "value", "pe"))
    return [*_TAKEN, *_word_set(*given)], None


def _answered(a: dict[str, Any]) -> effects.Described:
    """Elements of other PEs, which are here on return."""
    kind = bodies.number(a["kind"])
    if kind & _KIND != bodies.number(constants.REQUEST_G):
        return [], None
    size, did = kind >> _SIZE & _KIND, []
    for address, _, pe in _requests(a | {"dest": a["source"]}):
        heap, low = memory.own(address)
        did.append(("r", pe, heap, ((low, low + size),)))
    return did, None


def _settled(_: Any) -> effects.Described:
    return [], lambda _: [("Pq",)]


#: What is described, and not followed, of the functions of ``primitives``.
DESCRIBED: dict[tuple[str, str], Any] = {
    ("primitives.ring", "tell_tile"): _asked,
    ("primitives.ring", "tell"): _asked_for_one,
    ("primitives.ring", "ask_tile"): _answered,
    ("primitives.ring", "settle"): _settled,
}


def install(write: Callable[[str, Effects], None]) -> None:
    """Put records around the leaf primitives, before ``primitives.backend`` takes them."""
    global _write
    _write = write
    plain = {name: getattr(bodies, name) for name in _WRAPPED}
    for name, around in _WRAPPED.items():
        setattr(bodies, name, around(plain[name]))
