# SPDX-License-Identifier: BSD-3-Clause
"""LLVM functions under names made of their content, so that those of several processes fit together.

Numba's names hold a number that counts up in each process: of two processes, two different functions
may have one name, and the linker takes the first. Here a function's name is a hash of its text, in which
its callees have theirs. Equal functions have equal names, whoever compiled them, and different ones not.
"""

from __future__ import annotations

import hashlib
import re
from typing import NamedTuple

PREFIX = "pysh_"
_SELF = "$self"
_DEFINE = re.compile(r'^define [^@\n]*@"?([\w.$]+)"?\(', re.M)
_LINKAGE = re.compile(r"^define (?!linkonce_odr )(?:weak_odr )?", re.M)
#: What a process alone has: the module's name, and Numba's environments, which no GPU reads.
_OWN = re.compile(
    r'^(?:; ModuleID = .*|@"?_ZN08NumbaEnv[\w.$]*"? = common global i8\* null)\n', re.M
)
_WORD = re.compile(r"[A-Za-z_$.][\w$.]*")


class Function(NamedTuple):
    """Text of a module with one function, and the names of those that it calls."""

    text: str
    calls: tuple[str, ...]


class Routine(NamedTuple):
    """A function by name, with all that it calls, callers first."""

    root: str
    functions: dict[str, Function]


def content_name(text: str, name: str) -> str:
    """The name that the function ``name`` of this text has by its content."""
    bare = text.replace(name, _SELF)
    return PREFIX + hashlib.sha256(bare.encode()).hexdigest()[:32]


def freeze(texts: list[str], root: str) -> Routine:
    """The functions of one routine under such names; ``texts``: its modules, each with one function.

    Raises: ValueError (a module with none or several, or a circle of calls).
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
            text = _WORD.sub(lambda word: renamed.get(word[0], word[0]), own[name])
            short = content_name(text, _SELF)
            new[name] = short
            made[short] = Function(text.replace(_SELF, short), tuple(sorted(set(calls.values()))))
        return new[name]

    first = name_of(root, ())
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
