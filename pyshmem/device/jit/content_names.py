# SPDX-License-Identifier: BSD-3-Clause
"""LLVM functions under names made of their content, so that those of several processes fit together.

Numba's names hold a number that counts up in each process: of two processes, two different functions
may have one name, and the linker takes the first. Here a function's name is a hash of its text, in which
its callees have theirs. Equal functions have equal names, whoever compiled them, and different ones not.
In front of the hash is where the function is defined, as Numba writes it, for profilers and people.
"""

from __future__ import annotations

import hashlib
import re
from typing import NamedTuple

_SELF = "$self"
_DEFINE = re.compile(r'^define [^@\n]*@"?([\w.$]+)"?\(', re.M)
_LINKAGE = re.compile(r"^define (?!linkonce_odr )(?:weak_odr )?", re.M)
_DECLARED = re.compile(r'^declare [^@\n]*@"?([\w.$]+)"?\(', re.M)
#: Functions that NVVM and every link know: intrinsics, libdevice, grids' barriers, print.
_EVERYWHERE = ("llvm.", "__nv_", "cudaCG", "vprintf")
#: What a process alone has: the module's name, and Numba's environments, which no GPU reads.
_OWN = re.compile(
    r'^(?:; ModuleID = .*|@"?_ZN08NumbaEnv[\w.$]*"? = common global i8\* null)\n', re.M
)
_WORD = re.compile(r"[A-Za-z_$.][\w$.]*")


def _declared_once(text: str) -> str:
    """Without the second declaration of a function: two of Numba's that are equal have one name here."""
    seen: set[str] = set()
    lines = []
    for line in text.splitlines(keepends=True):
        found = _DECLARED.match(line)
        if found is None or found[1] not in seen:
            lines.append(line)
        if found is not None:
            seen.add(found[1])
    return "".join(lines)


class Function(NamedTuple):
    """Text of a module with one function, and the names of those that it calls."""

    text: str
    calls: tuple[str, ...]


class Routine(NamedTuple):
    """A function by name, with all that it calls, callers first."""

    root: str
    functions: dict[str, Function]


def _origin(name: str) -> str:
    """``_ZN``, and the length and text of module, function and what is between, of a name of Numba's."""
    at, head = 3, re.compile(r"\d+")
    if not name.startswith("_ZN"):
        return "pyshmem"
    while number := head.match(name, at):
        at = number.end() + int(number[0])
    return name[:at]


def content_name(text: str, name: str) -> str:
    """The name that the function ``name`` of this text has by its content."""
    bare = text.replace(name, _SELF)
    return f"{_origin(name)}_{hashlib.sha256(bare.encode()).hexdigest()[:32]}"


def digest(texts: list[str]) -> str:
    """Of the modules of one program, whatever numbers its process has given to their functions."""
    bare = [_OWN.sub("", text) for text in texts]
    names = dict.fromkeys(name for text in bare for name in _DEFINE.findall(text))
    named = {name: f"{_origin(name)}{_SELF}{number}" for number, name in enumerate(names)}
    made = hashlib.sha256()
    for text in bare:
        made.update(_WORD.sub(lambda word: named.get(word[0], word[0]), text).encode())
    return made.hexdigest()


def freeze(texts: list[str], root: str) -> Routine:
    """The functions of one routine under such names; ``texts``: its modules, each with one function.

    Raises: ValueError (a module with none or several, a circle of calls, a function of somewhere else).
    """
    own: dict[str, str] = {}
    for text in texts:
        text = _LINKAGE.sub("define linkonce_odr ", _OWN.sub("", text))
        names = _DEFINE.findall(text)
        if len(names) != 1:
            raise ValueError(f"a module defines {len(names)} functions: {names}")
        own[names[0]] = text
    if root not in own:
        raise ValueError(f"{root} is not among {len(own)} functions")
    new: dict[str, str] = {}
    made: dict[str, Function] = {}

    def name_of(name: str, above: tuple[str, ...]) -> str:
        if name in above:
            raise ValueError(f"{name} calls itself")
        if name not in new:
            words = set(_WORD.findall(own[name]))
            calls = {
                callee: name_of(callee, (*above, name))
                for callee in sorted((words & own.keys()) - {name})
            }
            renamed = calls | {name: _SELF}
            text = _declared_once(_WORD.sub(lambda word: renamed.get(word[0], word[0]), own[name]))
            short = f"{_origin(name)}_{hashlib.sha256(text.encode()).hexdigest()[:32]}"
            new[name] = short
            made[short] = Function(text.replace(_SELF, short), tuple(sorted(set(calls.values()))))
        return new[name]

    first = name_of(root, ())
    outside = {name for made_of in made.values() for name in _DECLARED.findall(made_of.text)}
    for name in outside - made.keys():
        if not name.startswith(_EVERYWHERE):
            raise ValueError(f"{name} is not among them")
    return Routine(first, dict(reversed(made.items())))


def check(routine: Routine) -> None:
    """Raises ValueError when a function's name is not that of its content, or a function is missing."""
    for name, function in routine.functions.items():
        if content_name(function.text, name) != name:
            raise ValueError(f"{name} is not the name of its text")
        if not routine.functions.keys() >= set(function.calls):
            raise ValueError(f"{name} calls what is not there")
    if routine.root not in routine.functions:
        raise ValueError(f"{routine.root} is not there")
