# SPDX-License-Identifier: BSD-3-Clause
"""Calls of the host's routines by kernels, which no GPU compiles: those that run as Python refuse them.

A kernel that runs as Python could call whatever its process has. For as long as one runs, the public
routines of ``pyshmem``, the methods of its classes and the functions of its modules are stand-ins, which
refuse calls of a kernel's code and hand on those of other threads. At other times there are none, so
calls cost what they cost without them; a launch costs about 0.05 ms more.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from enum import EnumType
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, NoReturn

import numpy as np

from ..._core.library import finished

_PACKAGE = str(Path(__file__).parents[2])


_OURS = "pyshmem.device"
#: What the host is told that calls a routine of kernels.
_NOT_ON_HOST = (
    "pyshmem.device routines are called from kernels, not from the host, which has its own: "
    "pyshmem.my_pe(), pyshmem.put(...)"
)


def refuse_host(name: str | None = None) -> NoReturn:
    """RuntimeError, of a routine that no kernel of Numba calls: the host does, or a kernel of Triton.

    ``name``: the routine's, where that is known.
    """
    for language in tuple(_running.values()):
        if language.in_kernel() and language.module != _OURS:
            called = f"{_OURS}.{name}" if name else f"a routine of {_OURS}"
            raise RuntimeError(
                f"{called} is for kernels of Numba, and one of Triton calls it; "
                + language.instead_of(name or "")
            )
    raise RuntimeError(_NOT_ON_HOST)


def _refuse_object(made: Any, *_given: Any, **_named: Any) -> NoReturn:
    refuse_host(getattr(made, "__name__", None))


def name_in_kernels(function: Callable[..., Any]) -> Callable[..., Any]:
    """What stands for ``function``, of which kernels are made, and cannot be called by the host."""

    @functools.wraps(function)
    def routine(*_given: Any, **_named: Any) -> Any:
        refuse_host(function.__name__)

    return routine


def of_kernels(made: Any, doc: str | None) -> Any:
    """A routine that is an object of the compiler's, which knows no words for the host that calls it."""
    plain = type(made)
    made.__class__ = type(plain.__name__, (plain,), {"__call__": _refuse_object})
    made.__doc__, made.__module__ = doc, "pyshmem.device"
    return made


class Language(NamedTuple):
    """A way in which kernels run as Python."""

    module: str  # what kernels have in place of the host's routines
    in_kernel: Callable[[], bool]  # does this thread run a kernel now?

    def advice(self, name: str, method: bool) -> str:
        """What kernels write in place of a routine of this name."""
        there = getattr(sys.modules.get(self.module), "__all__", ())
        for found in (f"team_{name}", name) if method else (name,):
            if found in there:
                return f"in kernels use {self.module}.{found}"
        return "kernels have none like it: call it before the launch or after it"

    def instead_of(self, name: str) -> str:
        """What these kernels write in place of another language's routine of this name."""
        there = getattr(sys.modules.get(self.module), "__all__", ())
        plain = name
        for scope in ("_work_group", "_warp", "_block"):
            plain = plain.removesuffix(scope)
        for found in (name, plain, plain.removesuffix("_all"), plain.removesuffix("_nbi")):
            if found in there:
                return f"there it is {self.module}.{found}"
        return f"there the routines are {self.module}'s, which has none of this name"


#: The launches that run, and their languages.
_running: dict[object, Language] = {}
_lock = threading.Lock()


class _Owner(NamedTuple):
    """A module or class with routines: by name the originals and their stand-ins."""

    owner: Any
    originals: dict[str, Any]
    stand_ins: dict[str, Any]

    def swap(self, old: dict[str, Any], new: dict[str, Any]) -> bool:
        """False: somebody else, as profiling does, has put something there, which stays."""
        there = vars(self.owner)
        swapped = {name: new[name] for name, value in old.items() if there.get(name) is value}
        if isinstance(self.owner, type):
            for name, value in swapped.items():
                setattr(self.owner, name, value)
        else:
            there.update(swapped)
        return len(swapped) == len(old)


#: All of them: found when a kernel runs first, and when they have changed.
_owners: dict[int, _Owner] = {}
#: Stand-ins by the ``id`` of the original, which its owner keeps.
_stand_ins: dict[int, Any] = {}


def _refuse(called: str, name: str, method: bool) -> None:
    """RuntimeError, where a kernel's own code calls; what it calls of the library may go on."""
    for language in tuple(_running.values()):
        if language.in_kernel() and not _by_the_library(sys._getframe(2).f_code.co_filename):
            raise RuntimeError(f"{called} is a host routine; {language.advice(name, method)}")


def _by_the_library(file: str) -> bool:
    return file.startswith(_PACKAGE)


def _stand_in(original: Any, called: str, name: str, method: bool) -> Any:
    def stand_in(*arguments: Any, **named: Any) -> Any:
        _refuse(called, name, method)
        return original(*arguments, **named)

    functools.update_wrapper(stand_in, original)
    return stand_in


def _attributes(kind: type) -> Any:
    """In place of ``__getattribute__`` of a class whose attributes are the host's state."""

    def stand_in(self: Any, name: str) -> Any:
        _refuse(f"{kind.__name__}.{name}", name, False)
        return object.__getattribute__(self, name)

    return stand_in


def _member(owner: type, name: str, member: Any) -> Any:
    """The stand-in of a class's member; None: it needs none."""
    called = f"{owner.__name__}.{name}"
    if isinstance(member, (staticmethod, classmethod)):
        return type(member)(_stand_in(member.__func__, called, name, True))
    if isinstance(member, property) and member.fget is not None:
        return member.getter(_stand_in(member.fget, called, name, True))
    return _stand_in(member, called, name, True) if callable(member) else None


def _members(kind: type) -> Iterator[tuple[Any, str, Any, Any]]:
    if isinstance(kind, EnumType) or issubclass(kind, (BaseException, np.ndarray, tuple)):
        return  # stand for no state of the host
    for name, member in vars(kind).items():
        made = _member(kind, name, member) if name == "__init__" or name[0] != "_" else None
        if name == "__getattribute__":
            made = _attributes(kind)
        if made is not None:
            yield kind, name, member, made


def _found(module: ModuleType, names: Iterable[str]) -> Iterator[tuple[Any, str, Any, Any]]:
    """All public routines: owner, name, the original, its stand-in."""
    for name in names:
        value = getattr(module, name)
        if isinstance(value, ModuleType):
            inside = vars(value).items()
            own = (key for key, one in inside if getattr(one, "__module__", "") == value.__name__)
            yield from _found(value, [key for key in own if key[0] != "_"])
        elif isinstance(value, type):
            yield from _members(value)
        elif callable(value):
            made = _stand_in(value, f"{module.__name__}.{name}", name, False)
            yield module, name, value, made


def _install() -> None:
    if _owners and all(kept.swap(kept.originals, kept.stand_ins) for kept in _owners.values()):
        return
    _remove()
    _find()
    for kept in _owners.values():
        kept.swap(kept.originals, kept.stand_ins)


def _find() -> None:
    package: Any = sys.modules[__name__.partition(".")[0]]
    owners: dict[int, _Owner] = {}
    _owners.clear()
    _stand_ins.clear()
    for owner, name, original, made in _found(package, package.__all__):
        kept = owners.setdefault(id(owner), _Owner(owner, {}, {}))
        kept.originals[name], kept.stand_ins[name] = original, made
        _stand_ins[id(original)] = made
    _owners.update(owners)  # whole: of a search that was interrupted there are none


def _remove() -> None:
    for kept in _owners.values():
        kept.swap(kept.stand_ins, kept.originals)


def stand_ins_in(namespace: dict[str, Any]) -> dict[str, Any]:
    """By name: what a kernel's module has meanwhile in place of the routines that it imports by name."""
    return {
        name: _stand_ins[id(value)] for name, value in namespace.items() if id(value) in _stand_ins
    }


@contextlib.contextmanager
def refused(language: Language) -> Iterator[None]:
    """Routines of the host are refused within, where ``language.in_kernel()``."""
    launch = object()
    try:
        with _lock:
            _running[launch] = language
            if len(_running) == 1:
                _install()
        yield
    finally:
        finished(lambda: _end(launch))


def _end(launch: object) -> None:
    with _lock:
        _running.pop(launch, None)
        if not _running:
            _remove()
