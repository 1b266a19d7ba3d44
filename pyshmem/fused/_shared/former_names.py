# SPDX-License-Identifier: BSD-3-Clause
"""What arguments and algorithms were called up to 0.1: taken with a warning for two releases."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])

#: No two operations meant different things by one of them. Owners of rows who also normalised them,
#: ``two_stages``, were nowhere the fastest: they do as the others do.
ALGORITHMS = {
    "engine": "copy_engine",
    "one_stage": "one_shot",
    "plain": "unfused",
    "slots": "simple",
    "split": "two_shot",
    "tiles": "persistent",
    "two_stages": "two_shot",
}


def _warn(text: str, stacklevel: int) -> None:
    warnings.warn(
        f"{text}; the old name goes in the second release from now",
        DeprecationWarning,
        stacklevel=stacklevel + 1,
    )


def algorithm_called(name: Any, stacklevel: int = 2) -> Any:
    """The algorithm that ``name`` is one of; a former name warns."""
    now = ALGORITHMS.get(name) if isinstance(name, str) else None
    if now is None:
        return name
    _warn(f"the algorithm {name!r} is {now!r} now", stacklevel + 1)
    return now


def translate(options: dict[str, Any], stacklevel: int = 3) -> dict[str, Any]:
    """Options of a call under their names of today.

    Raises: TypeError (``road`` beside ``algorithm``).
    """
    options = dict(options)
    if "road" in options:
        if "algorithm" in options:
            raise TypeError("road= is algorithm= now: give one of them")
        _warn("road= is algorithm= now", stacklevel)
        options["algorithm"] = options.pop("road")
    options["algorithm"] = algorithm_called(options["algorithm"], stacklevel + 1)
    return options


def translated(function: Function) -> Function:
    """``function`` with its former names, for those that ``on_tensors`` does not wrap."""

    @functools.wraps(function)
    def call(*given: Any, **options: Any) -> Any:
        if "road" in options or "algorithm" in options:
            options = translate(options)
        return function(*given, **options)

    return call  # type: ignore[return-value]
