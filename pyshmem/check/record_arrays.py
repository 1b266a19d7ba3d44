# SPDX-License-Identifier: BSD-3-Clause
"""Records what the host's program does to its own elements, as far as NumPy tells.

Seen are indexing, assignment, ufuncs, copies by ``np.array``, and NumPy's functions and methods of
``SymmetricArray``, its views and what ``ptr`` returns, each with the elements that it touches. Not seen
is what goes by a plain view: ``np.asarray(x)``, ``x.view(np.ndarray)``, a ``memoryview``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .._core.arrays.checks import SymmetricArray, gone
from .._core.library import lib
from .._core.values import is_integer
from . import memory
from .log import Log, now

#: Methods that read all elements. Those that are made of ufuncs, as ``sum``, are seen by these.
_READING = (
    "copy", "astype", "tolist", "tobytes", "argmax", "argmin", "argsort", "dot", "round", "cumsum",
    "cumprod", "__int__", "__float__", "__bool__", "__index__", "__complex__", "__copy__",
    "__deepcopy__", "__repr__", "__str__", "__contains__", "__reduce__", "__reduce_ex__", "flatten",
    "nonzero", "byteswap", "conj", "conjugate", "dump", "dumps", "repeat", "searchsorted", "tofile",
    "trace",
)  # fmt: skip
#: Those whose result is a copy: what was never written is told where that is all of it.
_COPYING = frozenset(("copy", "deepcopy", "array", "tobytes", "flatten", "astype"))
#: Those that write them.
_WRITING = ("fill", "sort", "partition")
#: NumPy's functions that touch no element: they look at shapes, make views, or make new arrays.
_LOOKING = frozenset(
    (
        "shape", "ndim", "size", "result_type", "can_cast", "common_type", "min_scalar_type",
        "may_share_memory", "shares_memory", "iscomplexobj", "isrealobj", "zeros_like", "ones_like",
        "empty_like", "full_like", "reshape", "ravel", "transpose", "permute_dims", "matrix_transpose",
        "swapaxes", "moveaxis", "rollaxis", "squeeze", "expand_dims", "atleast_1d", "atleast_2d",
        "atleast_3d", "broadcast_to", "broadcast_arrays", "split", "array_split", "hsplit", "vsplit",
        "dsplit", "unstack", "flip", "fliplr", "flipud", "rot90", "diagonal", "real", "imag", "take",
        "compress", "as_strided", "sliding_window_view", "einsum_path", "ix_", "diag_indices_from",
        "tril_indices_from", "triu_indices_from", "broadcast_shapes",
    )
)  # fmt: skip
#: NumPy's functions that write their first argument, in part or whole.
_CHANGING = frozenset(("copyto", "put", "putmask", "place", "fill_diagonal", "put_along_axis"))
#: Elements of the largest array of which lists of indices are followed.
_MOST_INDEXED = 1 << 22


class _Recorder:
    def __init__(self, log: Log, inside: Any) -> None:
        self._log, self._inside = log, inside

    def off(self) -> bool:
        """Is the access part of a routine, or outside a job?"""
        return getattr(self._inside, "call", False) or not lib.ishmemx_initialized()

    def reads(self, *arrays: Any, name: str) -> None:
        for array in arrays:
            found = self._place(array)
            if found and gone(array):
                self._log.write(now(), 0, name, [("o", "read", *found)])
            elif found:
                self._log.touch(0, name, ("r", *found))
                if never := memory.never_written(found, whole=name in _COPYING):
                    self._log.write(now(), 0, name, never)

    def writes(self, array: Any, value: Any, name: str) -> None:
        found = self._place(array)
        if found and gone(array):
            self._log.write(now(), 0, name, [("o", "write", *found)])
        elif found:
            self._log.touch(0, name, ("w", *found, _value(array, value)))

    def indexed(self, array: Any, index: Any, code: str, value: Any, name: str) -> None:
        """Elements that a list of indices or a mask names."""
        found = _indexed(array, index) if isinstance(array, SymmetricArray) else None
        if found is not None:
            more = () if code == "r" else (value,)
            self._log.write(now(), 0, name, [(code, *found, *more)])

    @staticmethod
    def _place(array: Any) -> Any:
        return memory.ranges_of(array) if isinstance(array, SymmetricArray) else None


def _value(array: np.ndarray[Any, Any], value: Any) -> int | None:
    """What each element becomes, if it may be waited for."""
    looked_at = min(array.size, memory.MOST_FLAGS)
    if array.dtype.kind not in "iu" or np.size(value) not in (1, looked_at):
        return None
    try:
        some = np.asarray(value).reshape(-1)
        return int(some[0]) if (some == some[0]).all() else None
    except (TypeError, ValueError, OverflowError, IndexError):
        return None


def _indexed(array: np.ndarray[Any, Any], index: Any) -> tuple[int, int, Any] | None:
    """PE, heap and byte ranges of some elements; None: on no heap, too many, or NumPy will refuse."""
    found = memory.where(array.__array_interface__["data"][0]) if array.size else None
    if found is None or array.size > _MOST_INDEXED:
        return None
    places: Any = np.int64(found[2])
    for axis, (n, stride) in enumerate(zip(array.shape, array.strides, strict=True)):
        beside = (1,) * (array.ndim - axis - 1)
        places = places + (np.arange(n, dtype=np.int64) * stride).reshape(n, *beside)
    try:
        chosen = np.unique(np.asarray(places)[index])
    except (IndexError, TypeError, ValueError):
        return None
    return *found[:2], memory.joined(chosen.tolist(), array.itemsize)


def install(log: Log, inside: Any) -> None:
    """Replace methods of ``SymmetricArray``."""
    recorder = _Recorder(log, inside)
    _index(recorder)
    _functions(recorder)
    for name in _READING:
        _method(recorder, name, reading=True)
    for name in _WRITING:
        _method(recorder, name, reading=False)


def peer_view(plain: Callable[..., Any]) -> Callable[..., Any]:
    """What ``ptr`` returns is of the class whose elements are followed: they are the peer's."""

    def view_of_peer(address: int, nbytes: int, array: Any) -> Any:
        found = plain(address, nbytes, array)
        return found.view(SymmetricArray) if type(found) is np.ndarray and found.size else found

    view_of_peer.__name__, view_of_peer.__doc__ = plain.__name__, plain.__doc__
    return view_of_peer


def _index(recorder: _Recorder) -> None:
    get, put = np.ndarray.__getitem__, np.ndarray.__setitem__

    def getitem(self: Any, index: Any) -> Any:
        found = get(self, index)
        if recorder.off():
            return found
        if not isinstance(found, np.ndarray):
            recorder.reads(_part(self, index), name="read")
        elif found.size and not np.may_share_memory(found, self):  # a copy, by a list of indices
            recorder.indexed(self, index, "r", None, "read")
        return found

    def setitem(self: Any, index: Any, value: Any) -> None:
        if not recorder.off():
            part = _part(self, index)
            if isinstance(value, SymmetricArray):
                recorder.reads(value, name="read")
            if part is not None:
                recorder.writes(part, value, name="store")
            else:
                recorder.indexed(self, index, "w", None, "store")
        put(self, index, value)

    def item(self: Any, *args: Any) -> Any:
        found = np.ndarray.item(self, *args)
        if not recorder.off():
            where: Any = args[0] if len(args) == 1 else args
            flat = is_integer(where)
            index = np.unravel_index(where, self.shape) if flat else where
            recorder.reads(_part(self, index), name="read")
        return found

    def take(
        self: Any, indices: Any, axis: Any = None, out: Any = None, mode: Any = "raise"
    ) -> Any:
        if not recorder.off():
            if axis is None and mode == "raise" and self.flags.c_contiguous:
                flat = self.reshape(-1)
                recorder.indexed(flat, np.asarray(indices), "r", None, "take")
            recorder.writes(out, None, name="take")
        return np.ndarray.take(self.view(np.ndarray), indices, axis, _plain(out), mode)

    SymmetricArray.__getitem__ = getitem  # type: ignore[method-assign]
    SymmetricArray.__setitem__ = setitem  # type: ignore[method-assign]
    SymmetricArray.item = item  # type: ignore[method-assign]
    SymmetricArray.take = take  # type: ignore[method-assign]


def _part(array: Any, index: Any) -> Any:
    """The elements of an index, as a view; None: a list of indices, or a mask."""
    whole = index if isinstance(index, tuple) else (index,)
    if any(isinstance(one, (list, np.ndarray, bool, np.bool_)) for one in whole):
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
            _ufunc(recorder, ufunc.__name__, method, inputs, outs, named.get("where", True))
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
            _function(recorder, function.__name__, args, named)
        return np.ndarray.__array_function__(self, function, types, args, named)

    SymmetricArray.__array_ufunc__ = array_ufunc  # type: ignore[method-assign]
    SymmetricArray.__array_function__ = array_function  # type: ignore[method-assign, assignment]
    np.array = _copying(recorder, np.array)


def _ufunc(recorder: _Recorder, name: str, method: str, inputs: Any, outs: Any, where: Any) -> None:
    """What a ufunc touches: with a mask, or at a list of indices, only these elements."""
    if method == "at":
        recorder.reads(*inputs[2:], name=name)
        if isinstance(inputs[0], SymmetricArray):
            part = _part(inputs[0], inputs[1])
            if part is None:
                recorder.indexed(inputs[0], inputs[1], "w", None, name)
            else:
                recorder.writes(part, None, name=name)
        return
    if where is True:
        recorder.reads(*inputs, name=name)
        for out in outs:
            recorder.writes(out, None, name=name)
        return
    for code, arrays in (("r", inputs), ("w", outs)):
        for one in arrays:
            if isinstance(one, SymmetricArray) and one.shape == np.shape(where):
                recorder.indexed(one, np.asarray(where, bool), code, None, name)


def _function(recorder: _Recorder, name: str, args: Any, named: dict[str, Any]) -> None:
    """What one of NumPy's functions touches."""
    outs = named.get("out")
    for out in outs if isinstance(outs, tuple) else (outs,):
        recorder.writes(out, None, name=name)
    if name in _CHANGING:
        recorder.reads(*_arrays_in(args[1:]), name=name)
        if name == "put":
            recorder.indexed(args[0].reshape(-1), np.asarray(args[1]), "w", None, name)
        elif name == "copyto" and named.get("where", True) is True:
            recorder.writes(args[0], args[1], name=name)
    elif name not in _LOOKING:
        named = {key: value for key, value in named.items() if key != "out"}
        recorder.reads(*_arrays_in((*args, *named.values())), name=name)


def _copying(recorder: _Recorder, plain: Any) -> Any:
    """``np.array``: it reads its argument where it copies that."""

    def array(*args: Any, **named: Any) -> Any:
        made = plain(*args, **named)
        given = args[:1] or (named.get("object"),)
        if (isinstance(given[0], SymmetricArray | list | tuple)) and not recorder.off():
            read = [one for one in _arrays_in(given) if not np.may_share_memory(one, made)]
            recorder.reads(*read, name="array")
        return made

    array.__name__, array.__doc__ = "array", plain.__doc__
    return array


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
