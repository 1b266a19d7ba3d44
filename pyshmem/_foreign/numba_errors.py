# SPDX-License-Identifier: BSD-3-Clause
"""What Numba says of a function that it cannot compile, in a few lines. Seen in Numba 0.68.1.

Its text tells of every candidate of a call and of every pass, innermost first. Lines without a space
before them are of the error itself; those with one are of a candidate.
"""

from __future__ import annotations

import linecache
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numba
from numba.core import config, errors, ir

from .hooks import Hook

HOOKS = (
    Hook(errors, "TypingError"),
    Hook(config, "FULL_TRACEBACKS"),
    Hook(ir.Loc, "__init__", "self filename line"),
)
_OWN = Path(__file__).parents[1]
_NOT_OF_USERS = (f"{_OWN}/", f"{Path(numba.__file__).parent}/", "<")
_PLACE = re.compile(r"(?:During: .* at|Raised from|defined at) (\S.*) \((\d+)\)$")
_CODE = re.compile(r'File "(.+)", line (\d+):')
_FAILED = re.compile(r"Failed in \w+ mode pipeline \(step: .*\)")
_NO_IMPLEMENTATION = re.compile(r"No implementation of function (?:Function|\w+)\(<.*?>\)")
_CALL = re.compile(r">>> (.*)")
_RAISED = "raised a specific error:"
#: What Numba's words mean in kernels.
_MEANT = {
    "NRT required but not enabled": "it makes an object, as a list, a text or an array: kernels have "
    "numbers, tuples, and arrays by cuda.local.array and cuda.shared.array",
}
_MOST_LINES, _MOST_LETTERS, _MOST_PLACES = 4, 300, 4


class _Place(NamedTuple):
    file: str
    line: int

    def shown(self) -> str:
        code = linecache.getline(self.file, self.line).strip()
        return f"{Path(self.file).name}:{self.line}: {code}"[:_MOST_LETTERS]


def _is_of_users(file: str) -> bool:
    return not file.startswith(_NOT_OF_USERS)


def _places_told(text: str) -> Iterator[_Place]:
    for line in text.splitlines():
        if found := _PLACE.search(line) or _CODE.match(line) if not line.startswith(" ") else None:
            yield _Place(os.path.abspath(found[1]), int(found[2]))


def _places_compiled(error: BaseException) -> Iterator[_Place]:
    """What Numba was compiling where an error was raised that is none of its own; innermost first."""
    frames: list[Any] = []
    trace = error.__traceback__
    while trace is not None:
        frames.append(trace.tb_frame.f_locals)
        trace = trace.tb_next
    for names in reversed(frames):
        for one in (names.get("loc"), getattr(names.get("self"), "loc", None)):
            if isinstance(one, ir.Loc):
                yield _Place(one.filename, one.line)


def _specific(text: str) -> str:
    """What this library says of a call that it refuses, in the innermost candidate; empty: nothing."""
    for part in reversed(text.split(_RAISED)[1:]):
        words, raised, rest = part.partition("raised from ")
        if raised and rest.startswith(str(_OWN)):
            lines = [_FAILED.sub("", line.strip()).strip() for line in words.splitlines()]
            lines[:] = [re.sub(r"^\w*Error: ?", "", line) for line in lines if line]
            return "\n".join(line for line in lines if line and not line.startswith("During:"))
    return ""


def _headline(text: str) -> str:
    """The first paragraph; of a call without an implementation, the call."""
    lines = [line for line in text.splitlines() if not _FAILED.fullmatch(line.strip())]
    first = "\n".join(lines).strip().split("\n\n")[0].split("\nDuring:")[0].split('\nFile "')[0]
    call = _CALL.search(text)
    if call and _NO_IMPLEMENTATION.match(first):
        return f"there is no implementation of {call[1]}"
    return _PLACE.sub("", first.replace(". Raised from None", "")).rstrip(", .")


def _shortened(text: str) -> str:
    lines = [line.rstrip()[:_MOST_LETTERS] for line in text.splitlines() if line.strip()]
    return "\n".join(lines[:_MOST_LINES] + ["..."] * (len(lines) > _MOST_LINES))


def short(function: Any, error: Exception) -> Exception:
    """What ``error``, raised where a kernel was compiled, says of it: at most 12 lines.

    Numba's own words are its ``__context__``, shown with ``NUMBA_FULL_TRACEBACKS=1``. Errors of Numba
    are its TypingError; others, as of a name that a module lacks, are of their own class.
    """
    text = str(error)
    told = _specific(text) or _headline(text)
    what = next((meant for words, meant in _MEANT.items() if words in text), "") or told
    of_numba = isinstance(error, errors.NumbaError)
    code = function.__code__
    found = [*(_places_told(text) if of_numba else ())] or _places_compiled(error)
    places = list(dict.fromkeys(place for place in found if _is_of_users(place.file)))
    head = f"kernel {function.__qualname__} ({Path(code.co_filename).name}:{code.co_firstlineno})"
    lines = [f"{head} cannot be compiled: {_shortened(what) or repr(error)}"]
    for number, place in enumerate(places[:_MOST_PLACES]):
        lines.append(f"  {'called in' if number else 'in'} {place.shown()}")
    if of_numba:
        lines.append("NUMBA_FULL_TRACEBACKS=1 shows all that Numba says of it.")
    made: Exception = _made(error, "\n".join(lines))
    made.__suppress_context__ = not config.FULL_TRACEBACKS
    made.__context__ = error
    return made


def _made(error: Exception, text: str) -> Exception:
    if type(error) in (AttributeError, TypeError, ValueError, NameError, NotImplementedError):
        return type(error)(text)
    return errors.TypingError(text)  # type: ignore[no-any-return, no-untyped-call, unused-ignore]
