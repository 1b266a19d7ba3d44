# SPDX-License-Identifier: BSD-3-Clause
"""Records what the host's program does to its own elements, as far as NumPy tells.

Seen are indexing, assignment, ufuncs, and NumPy's functions and methods below, of ``SymmetricArray``
and its views. Not seen is what goes by a plain view: ``np.asarray(x)``, ``x.view(np.ndarray)``, a
``memoryview``, a tensor of torch, what ``ptr`` returned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .._core.arrays.checks import SymmetricArray
from .._core.library import lib
from . import memory
from .log import Log, now

#: Methods that read all elements.
_READING = (
    "copy", "astype", "tolist", "tobytes", "item", "argmax", "argmin", "argsort", "dot", "take",
    "round", "cumsum", "cumprod", "__int__", "__float__", "__bool__", "__index__", "__complex__",
    "__copy__", "__deepcopy__", "__repr__", "__str__", "__contains__", "flatten", "nonzero",
)  # fmt: skip
#: Those that write them.
_WRITING = ("fill", "sort", "partition")
#: NumPy's functions that read arrays; ``copyto`` and ``out=`` write.
_FUNCTIONS = frozenset(
    (
        "array_equal", "allclose", "array_repr", "array_str", "array2string", "concatenate", "stack",
        "vstack", "hstack", "dot", "vdot", "inner", "outer", "where", "sort", "argsort", "unique",
        "median", "count_nonzero", "flatnonzero", "tile", "repeat", "roll", "diff", "array_equiv",
        "average", "percentile", "bincount", "histogram", "save", "savetxt", "copy",
    )
)  # fmt: skip


class _Recorder:
    def __init__(self, log: Log, inside: Any) -> None:
        self._log, self._inside = log, inside

    def off(self) -> bool:
        """Is the access part of a routine, or outside a job?"""
        return getattr(self._inside, "call", False) or not lib.ishmemx_initialized()

    def reads(self, *arrays: Any, name: str) -> None:
        effects = [("r", *found) for array in arrays if (found := self._place(array))]
        if effects:
            self._log.write(now(), 0, name, effects)

    def writes(self, array: Any, value: Any, name: str) -> None:
        if found := self._place(array):
            self._log.write(now(), 0, name, [("w", *found, _value(array, value))])

    @staticmethod
    def _place(array: Any) -> Any:
        return memory.ranges_of(array) if isinstance(array, SymmetricArray) else None


def _value(array: np.ndarray[Any, Any], value: Any) -> int | None:
    """What one element becomes, if it may be waited for."""
    if array.size != 1 or array.dtype.kind not in "iu" or np.size(value) != 1:
        return None
    try:
        return int(np.asarray(value).reshape(-1)[0])
    except (TypeError, ValueError, OverflowError):
        return None


def install(log: Log, inside: Any) -> None:
    """Replace methods of ``SymmetricArray``."""
    recorder = _Recorder(log, inside)
    _index(recorder)
    _functions(recorder)
    for name in _READING:
        _method(recorder, name, reading=True)
    for name in _WRITING:
        _method(recorder, name, reading=False)


def _index(recorder: _Recorder) -> None:
    get, put = np.ndarray.__getitem__, np.ndarray.__setitem__

    def getitem(self: Any, index: Any) -> Any:
        found = get(self, index)
        if recorder.off():
            return found
        if not isinstance(found, np.ndarray):
            recorder.reads(_part(self, index), name="read")
        elif not np.may_share_memory(found, self):  # a copy, by a list of indices
            recorder.reads(self, name="read")
        return found

    def setitem(self: Any, index: Any, value: Any) -> None:
        if not recorder.off():
            part = _part(self, index)
            if isinstance(value, SymmetricArray):
                recorder.reads(value, name="read")
            recorder.writes(part, value, name="store")
        put(self, index, value)

    SymmetricArray.__getitem__ = getitem  # type: ignore[method-assign]
    SymmetricArray.__setitem__ = setitem  # type: ignore[method-assign]


def _part(array: Any, index: Any) -> Any:
    """The elements of an index, as a view; of a list of indices nothing, as these are not followed."""
    whole = index if isinstance(index, tuple) else (index,)
    if any(isinstance(one, (list, np.ndarray)) for one in whole):
        return None
    if Ellipsis not in whole:
        whole = (*whole, Ellipsis)
    try:
        return np.ndarray.__getitem__(array, whole)
    except (IndexError, TypeError):
        return None  # NumPy tells


def _functions(recorder: _Recorder) -> None:
    def array_ufunc(self: Any, ufunc: Any, method: str, *inputs: Any, **named: Any) -> Any:
        outs = named.get("out") or ()
        if not recorder.off():
            recorder.reads(*inputs, name=ufunc.__name__)
            for out in inputs[:1] if method == "at" else outs:
                recorder.writes(out, None, name=ufunc.__name__)
        plain = [_plain(one) for one in inputs]
        if outs:
            named["out"] = tuple(_plain(one) for one in outs)
        result = getattr(ufunc, method)(*plain, **named)
        if not outs:
            return result
        if isinstance(result, tuple):
            return tuple(
                out if out is not None else one for out, one in zip(outs, result, strict=True)
            )
        return outs[0]

    def array_function(self: Any, function: Any, types: Any, args: Any, named: Any) -> Any:
        if not recorder.off():
            if function is np.copyto:
                recorder.reads(*args[1:2], name="copyto")
                recorder.writes(args[0], None, name="copyto")
            elif function.__name__ in _FUNCTIONS:
                recorder.reads(*_arrays_in(args), name=function.__name__)
        return np.ndarray.__array_function__(self, function, types, args, named)

    SymmetricArray.__array_ufunc__ = array_ufunc  # type: ignore[method-assign]
    SymmetricArray.__array_function__ = array_function  # type: ignore[method-assign, assignment]


def _plain(array: Any) -> Any:
    return array.view(np.ndarray) if isinstance(array, SymmetricArray) else array


def _arrays_in(given: Any) -> Iterator[Any]:
    for one in given:
        if isinstance(one, (list, tuple)):
            yield from _arrays_in(one)
        elif isinstance(one, SymmetricArray):
            yield one


def _method(recorder: _Recorder, name: str, *, reading: bool) -> None:
    plain: Callable[..., Any] | None = getattr(SymmetricArray, name, None)
    if plain is None:
        return

    def call(self: Any, *args: Any, **named: Any) -> Any:
        if not recorder.off():
            if reading:
                recorder.reads(self, name=name.strip("_"))
            else:
                recorder.writes(self, args[0] if args else None, name=name)
        outer = getattr(recorder._inside, "call", False)
        recorder._inside.call = True
        try:
            return plain(self, *args, **named)
        finally:
            recorder._inside.call = outer

    call.__name__, call.__doc__ = name, plain.__doc__
    setattr(SymmetricArray, name, call)
