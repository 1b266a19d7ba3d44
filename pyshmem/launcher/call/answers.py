# SPDX-License-Identifier: BSD-3-Clause
"""What travels between a program that calls ``launch`` and its PEs: the call there, the answers back.

Both are in memory files, which have no name and so leave nothing behind.
"""

from __future__ import annotations

import json
import linecache
import os
import pickle
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..._core.errors import LaunchError

_NOEXEC_SEAL = 8  # Linux 6.3; some systems refuse memory files without it

#: How a pickle begins; what a PE that was ended says of its place is text.
_PICKLE = b"\x80"


@contextmanager
def memory_file(name: str, data: bytes = b"") -> Iterator[int]:
    """The descriptor of a file without a name that holds ``data``."""
    try:
        fd = os.memfd_create(f"pyshmem-{name}", os.MFD_CLOEXEC | _NOEXEC_SEAL)
    except OSError:  # a kernel that does not know the flag
        fd = os.memfd_create(f"pyshmem-{name}", os.MFD_CLOEXEC)
    try:
        with open(fd, "wb", closefd=False) as file:
            file.write(data)
        yield fd
    finally:
        os.close(fd)


def call_of(function: Callable[..., Any], args: tuple[Any, ...]) -> bytes:
    """What a PE needs before it can unpickle, as a line of JSON, and the call."""
    from . import pickling

    place = {
        "path": [os.fspath(entry) for entry in sys.path if isinstance(entry, str | os.PathLike)],
        "argv": [str(word) for word in getattr(sys, "argv", [""])],
        "sources": _cells(),
    }
    # Python looks into no entries of other kinds, such as bytes.
    place["path"] = [entry for entry in place["path"] if isinstance(entry, str)]
    try:
        pickled = pickling.dumps((function, args))
    except Exception as error:
        name = getattr(function, "__qualname__", repr(function))
        raise LaunchError(
            f"{name} or its arguments cannot be sent to the PEs: {type(error).__name__}: {error}; "
            "make inside the function what cannot be pickled"
        ) from error
    return json.dumps(place).encode() + b"\n" + pickled


def _cells() -> dict[str, list[str]]:
    """The lines of code that no file has, such as a notebook's, for tracebacks of the PEs."""
    return {
        name: entry[2]
        for name, entry in linecache.cache.items()
        if len(entry) == 4 and entry[1] is None and not os.path.exists(name)
    }


def answer_in(fd: int) -> dict[str, Any]:
    """What a PE wrote: ``value``, or ``error``, ``traceback`` and perhaps ``exception``.

    Value and exception are pickled still: nothing of the user's runs here.
    """
    with open(fd, "rb", closefd=False) as file:
        file.seek(0)
        begin = file.read(1)
        file.seek(0)
        if begin != _PICKLE:  # it ended before; perhaps it says where it was
            return {"traceback": file.read().decode(errors="replace")}
        try:
            answer: dict[str, Any] = pickle.load(file)
        except Exception:  # it was ended while it wrote
            return {"traceback": ""}
    return answer


def unpacked(answer: dict[str, Any]) -> dict[str, Any]:
    """The answer with the value, or the exception, that it brings."""
    part = "value" if "value" in answer else "exception"
    if part not in answer:
        return answer
    try:
        return answer | {part: pickle.loads(answer[part])}
    except Exception as error:
        if part == "exception":  # its text says what there is to say
            return answer | {part: None}
        text = f"the result cannot be made here: {type(error).__name__}: {error}"
        return {"error": text, "traceback": "", "exception": error, "secondary": False}
