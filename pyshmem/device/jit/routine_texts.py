# SPDX-License-Identifier: BSD-3-Clause
"""Device routines as LLVM text in files, so that Numba's front end sees each of them once on a host.

The first kernel that calls a routine has it compiled, for the types of its arguments, and writes the
text of its functions, under names made of their content, beside the compiled kernels of streams. All
later kernels, of this process and of others, get that text: NVVM inlines it as it did before.
"""

from __future__ import annotations

import json
import threading
import zlib
from collections.abc import Callable
from hashlib import sha256
from typing import Any, NamedTuple

from ..._core import kept_files, library
from ..._foreign import numba_cuda_texts as texts
from ..._foreign.numba_types import scalars, written
from ...host.observe import stages
from ..routine import ROUTINES
from ..state import SYMBOL
from . import shipped
from .content_names import Function, Routine, check, freeze
from .linked_collectives import can_be_called

#: Of the files: part of their names.
_FORMAT = 1


class _Kept(NamedTuple):
    """A routine as kernels take it: its function's name, its result's type, its library."""

    name: str
    returns: Any
    library: texts.TextLibrary
    cooperative: bool


_lock = threading.RLock()
_libraries: dict[str, texts.TextLibrary] = {}  # of functions, by name
_kept: dict[str, _Kept] = {}  # routines, by the name of their file


def _key(name: str, arguments: tuple, options: dict[str, Any]) -> list[str] | None:
    """All that a routine's text depends on; None: the store does not keep it."""
    kinds = [written(kind) for kind in arguments]
    if None in kinds:
        return None
    options = options | {"cc": tuple(options["cc"])}
    words = [f"{option}={options[option]}" for option in sorted(options)]
    labels = "stages" if stages.compiled_in() else ""
    about = [str(_FORMAT), SYMBOL, kept_files.origin(), texts.dialect(), labels, *words]
    return [name, *map(str, kinds), *about]


def take(
    function: Any, arguments: tuple, options: dict[str, Any], compile_it: texts.Compile
) -> Any:
    """What Numba is given for a device function: of a public routine, its text from the store."""
    name = function.__name__
    own = getattr(ROUTINES.get(name), "__wrapped__", None)  # without what the host is told
    if own is not function or not library.setting_number("KERNEL_STORE"):
        return compile_it()
    key = _key(name, arguments, options)
    if key is None:
        return compile_it()
    compiled: list[Any] = []

    def make() -> kept_files.File | None:
        compiled.append(compile_it())
        return _file_of(key, compiled[-1])

    kept = _routine(key, make)
    if kept is None:  # it is one that the store does not keep
        return compiled[-1] if compiled else compile_it()
    return texts.result_of(kept.name, kept.returns, arguments, function, kept.library)


def _routine(key: list[str], make: Callable[[], kept_files.File | None]) -> _Kept | None:
    place = f"{key[0]}-{sha256(json.dumps(key).encode()).hexdigest()[:32]}.ll"
    with _lock:
        kept = _kept.get(place)
        if kept is None:
            came = shipped.routine_of(key)
            kept = _made(key, *came) if came else None
        if kept is None:
            path = kept_files.folder() / "routines" / place
            kept = kept_files.kept(path, make, lambda file: _read(key, file))
        if kept is not None:
            _kept[place] = kept
        return kept


def _file_of(key: list[str], result: Any) -> kept_files.File | None:
    """What is written of a routine that was just compiled; None: it needs more than its text."""
    returns = str(result.signature.return_type)
    if scalars().get(returns) != result.signature.return_type:
        return None
    if not texts.self_contained(result.library):
        return None
    try:
        routine = freeze(texts.texts_of(result.library), texts.root_name(result))
    except ValueError:
        return None
    about = {
        "key": key,
        "root": routine.root,
        "returns": returns,
        "cooperative": bool(result.library.use_cooperative),
    }
    return about, zlib.compress(json.dumps(routine.functions).encode(), 6)


def _read(key: list[str], file: kept_files.File) -> _Kept | None:
    """The routine in a file; None when it is another's, or its functions are not what they say."""
    about, code = file
    try:
        given = json.loads(zlib.decompress(code))
        functions = {name: Function(text, tuple(calls)) for name, (text, calls) in given.items()}
        return _made(key, about, Routine(about["root"], functions))
    except (ValueError, KeyError, TypeError, zlib.error, RecursionError):
        return None


def _made(key: list[str], about: dict[str, Any], routine: Routine) -> _Kept | None:
    """A routine of which a file says this; None as for ``_read``."""
    try:
        check(routine)
        if about["key"] != key:
            return None
        own = _library(routine, routine.root)
        own.use_cooperative |= bool(about["cooperative"])
        if can_be_called(key[0]):
            own.called, own.routine = True, key[0]
        return _Kept(routine.root, scalars()[about["returns"]], own, own.use_cooperative)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _library(routine: Routine, name: str) -> texts.TextLibrary:
    """The library of a function; that of one name is one object, whichever routine it came with."""
    if name not in _libraries:
        text, calls = routine.functions[name]
        below = tuple(_library(routine, callee) for callee in calls)
        _libraries[name] = texts.TextLibrary(name, text, below)
    return _libraries[name]
