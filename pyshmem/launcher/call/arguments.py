# SPDX-License-Identifier: BSD-3-Clause
"""The arguments of ``launch``, which are those of the mark ``pes`` too: checked before a PE starts."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..binding import BINDINGS
from ..settings import check_setting
from ..spec import PLACE

OUTPUTS = ("prefix", "plain", "none")

#: Of a job: PYSH_MAX_PES of the C library, which says so only when a job begins.
MOST_PES = 1023
#: How long an operating system's clock can wait.
_LONGEST = 1e9


class Wanted(NamedTuple):
    """What ``launch`` is asked for, beside the call itself."""

    n_pes: int
    timeout: float  #: 0: none
    output: str
    folder: Path | None
    env: dict[str, str]
    bind: str | None


def checked(
    function: Callable[..., Any], n_pes: Any, timeout: Any, output: Any, env: Any, bind: Any
) -> Wanted:
    """The arguments of ``launch``.

    Raises: TypeError, ValueError; they name the argument.
    """
    if not callable(function):
        swapped = ": give launch(function, n_pes)" if callable(n_pes) else ""
        kind = type(function).__name__
        article = "an" if kind[0] in "aeio" else "a"
        raise TypeError(f"function is {article} {kind}; give one that can be called{swapped}")
    if bind is not None and bind not in BINDINGS:
        raise ValueError(f"bind is {bind!r}; give {', '.join(map(repr, BINDINGS))} or None")
    name, folder = _output(output)
    return Wanted(
        number_of_pes(n_pes),
        0.0 if timeout is None else seconds(timeout, "timeout", "None for none"),
        name,
        folder,
        environment({} if env is None else env),
        bind,
    )


def number_of_pes(given: Any, name: str = "n_pes") -> int:
    """A number of PEs.

    Raises: TypeError, ValueError.
    """
    try:
        if isinstance(given, bool) or hasattr(
            given, "mask"
        ):  # a masked array's is a hidden element
            raise TypeError
        count = operator.index(given)
    except TypeError:
        raise TypeError(f"{name} is {given!r} ({type(given).__name__}), not an integer") from None
    if count < 1:
        raise ValueError(f"{name} is {count}; give 1 or more")
    if count > MOST_PES:
        raise ValueError(f"{name} is {count}; a job has at most {MOST_PES} PEs")
    return count


def seconds(given: Any, name: str, otherwise: str = "") -> float:
    """A time of more than 0 seconds.

    Raises: TypeError, ValueError.
    """
    ways = f"give seconds, or {otherwise}" if otherwise else "give seconds"
    try:
        if isinstance(given, str | bytes | bytearray | bool):
            raise TypeError
        found = float(given)
    except (TypeError, ValueError):
        raise TypeError(f"{name} is {given!r} ({type(given).__name__}); {ways}") from None
    except OverflowError:
        found = float("inf")
    if not found > 0:  # NaN neither
        raise ValueError(f"{name} is {given}; {ways}")
    return min(found, _LONGEST)


def _output(given: Any) -> tuple[str, Path | None]:
    ways = f"give {', '.join(map(repr, OUTPUTS))}, or a pathlib.Path of a folder"
    if isinstance(given, str):
        if given not in OUTPUTS:
            raise ValueError(f"output is {given!r}; {ways}")
        return given, None
    if not isinstance(given, os.PathLike) or not isinstance(os.fspath(given), str):
        raise TypeError(f"output is {given!r} ({type(given).__name__}); {ways}")
    folder = Path(given)
    if "\0" in str(folder):
        raise ValueError(f"output is {given!r}, which no folder is called; {ways}")
    return "", folder


def environment(given: Any, name: str = "env") -> dict[str, str]:
    """Variables for PEs, the settings of pyshmem among them right.

    Raises: TypeError, ValueError.
    """
    if not isinstance(given, Mapping):
        kind = type(given).__name__
        raise TypeError(f"{name} is a {kind}; give a dictionary such as {{'PYSHMEM_CHECK': '1'}}")
    for variable, value in given.items():
        for what, text in ((f"{name} has the name", variable), (f"{name}[{variable!r}] is", value)):
            if not isinstance(text, str):
                kind = type(text).__name__
                raise TypeError(f"{what} {text!r} ({kind}); names and values are str")
            if "\0" in text or not _can_be_encoded(text):
                raise ValueError(f"{what} {text!r}, which no variable of a process can hold")
        if not variable or "=" in variable:
            raise ValueError(f"{name} has the name {variable!r}; give one without '='")
        if variable in PLACE:
            raise ValueError(f"{name} has {variable}, which the launcher gives each PE")
        try:
            check_setting(variable, value)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    return dict(given)


def _can_be_encoded(text: str) -> bool:
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        return False
    return True
